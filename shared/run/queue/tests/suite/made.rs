//! Jobs and groups that tests add.

use std::collections::BTreeMap;

use queue::book::{Demand, Group, Id, QueuedJob};

/// A job of a template.
pub fn job(id: Id, template: &str) -> QueuedJob {
    QueuedJob {
        id,
        template: template.to_owned(),
        argv: vec!["x".to_owned()],
        set: BTreeMap::new(),
        values: Vec::new(),
        process: None,
        parent: None,
    }
}

/// A group of jobs that demand this.
pub fn group(token: &str, demand: Demand) -> Group {
    Group {
        token: token.to_owned(),
        cwd: "/".to_owned(),
        env: BTreeMap::new(),
        demand,
        first: None,
        origin: None,
    }
}
