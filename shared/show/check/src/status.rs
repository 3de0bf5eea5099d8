//! Checks the status of a cluster's jobs: states, rounds and expected ends must be consistent.

use std::collections::BTreeMap;

use doc::{ClusterStatus, JobState, JobStatus};

use crate::judge::Judge;

/// Judges a status. The reason why a job waits, and its end time, depend on data that is not in the document, so
/// they are not checked.
pub fn judge(status: &ClusterStatus, j: &mut Judge) {
    let mut trains: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (at, job) in status.jobs.iter().enumerate() {
        j.field("jobs", |j| {
            j.index(at, |j| {
                state(job, j);
                times(job, status, j);
                for task in job.running.iter().filter(|t| t.trains) {
                    // Two jobs may share a GPU, but the document does not say which pairs may. Three jobs never do,
                    // nor does a job with itself.
                    let own = job.job.as_str();
                    let there = trains.entry(&task.gpu).or_default();
                    there.push(own);
                    let twice = there.iter().filter(|n| **n == own).count() > 1;
                    if twice || there.len() > 2 {
                        let claimed = format!("a task on {}", task.gpu);
                        let others = there[..there.len() - 1].join(", ");
                        j.contradiction("running", claimed, format!("{others} train there"));
                    }
                    if status.lost.contains(&task.gpu) {
                        let claimed = format!("a task trains on {}", task.gpu);
                        j.contradiction("running", claimed, "a GPU that is not lost");
                    }
                }
            });
        });
    }
    j.unjudged(
        "jobs",
        "what is expected stands on times that are not in the document",
    );
}

fn state(job: &JobStatus, j: &mut Judge) {
    let runs = !job.running.is_empty();
    let complete = job.rounds_done == job.rounds;
    let may = match job.state {
        JobState::Running => runs && !complete,
        JobState::Waiting => !runs && !complete,
        JobState::Done => !runs && complete,
        JobState::Cancelled => !runs && !complete,
    };
    if !may {
        let found = format!(
            "{} tasks under way and {} of {} rounds done",
            job.running.len(),
            job.rounds_done,
            job.rounds
        );
        j.contradiction("state", job.state.name(), found);
    }
    if job.waits.is_some() != (job.state == JobState::Waiting) {
        let which = if job.waits.is_some() {
            "a reason"
        } else {
            "none"
        };
        j.contradiction(
            "waits",
            which,
            "a reason of each job that waits, and of no other",
        );
    }
}

fn times(job: &JobStatus, status: &ClusterStatus, j: &mut Judge) {
    let open = matches!(job.state, JobState::Running | JobState::Waiting);
    let now = status.time.get();
    if let Some(end) = job.end {
        let at = end.at.get();
        let low = end.low.get();
        let high = end.high.get();
        if low > at || high < at {
            j.contradiction("end_s", at, format!("from {low} to {high}"));
        }
        if open && at < now {
            j.contradiction("end_s", at, format!("{now} or later"));
        }
        if job.state == JobState::Done {
            if at > now {
                j.contradiction("end_s", at, format!("at most {now}"));
            }
            // The job has ended: the interval of its end is a single moment.
            j.number("end_low_s", low, at);
            j.number("end_high_s", high, at);
        }
    }
    if let Some((start, gpu)) = &job.next {
        if !open || start.get() < now {
            j.contradiction("next_start_s", start, "one of an open job, not in the past");
        }
        if status.lost.contains(gpu) {
            j.contradiction("next_gpu", gpu, "a GPU that is not lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use doc::{Any, AnyDocuments, Frames};

    use crate::Inspector;

    fn lies(jobs: &str) -> Vec<String> {
        let text =
            format!(r#"{{"schema":"mt.status/1","time_s":5,"lost":["g1"],"jobs":[{jobs}]}}"#);
        let mut documents = AnyDocuments::new(Frames::new(text.as_bytes(), "t"));
        let document: Any = documents.next().unwrap().unwrap();
        let verdict = Inspector::default().judge(document);
        verdict.lies.into_iter().map(|l| l.path).collect()
    }

    #[test]
    fn states_rounds_and_ends_have_to_agree() {
        let runs = r#"{"job":"a","state":"running","weight":1,"rounds_done":1,"rounds":2,
            "running":[{"task":0,"gpu":"g0","trains":true}],"end_s":9,"end_low_s":8,"end_high_s":11}"#;
        let waits = r#"{"job":"b","state":"waiting","weight":1,"rounds_done":0,"rounds":2,"waits":"it is next",
            "next_start_s":9,"next_gpu":"g0"}"#;
        assert_eq!(lies(&format!("{runs},{waits}")), Vec::<String>::new());
        for (from, to, path) in [
            ("running\",\"weight", "done\",\"weight", "$.jobs[0].state"),
            ("\"rounds_done\":1", "\"rounds_done\":2", "$.jobs[0].state"),
            ("\"gpu\":\"g0\"", "\"gpu\":\"g1\"", "$.jobs[0].running"),
            ("\"end_s\":9", "\"end_s\":4", "$.jobs[0].end_s"),
            ("\"end_high_s\":11", "\"end_high_s\":8.5", "$.jobs[0].end_s"),
        ] {
            let changed = runs.replace(from, to);
            assert_ne!(changed, runs, "{from}");
            assert!(lies(&changed).contains(&path.to_owned()), "{changed}");
        }
        for (from, to, path) in [
            ("\"waits\":\"it is next\",", "", "$.jobs[0].waits"),
            (
                "\"next_start_s\":9",
                "\"next_start_s\":4",
                "$.jobs[0].next_start_s",
            ),
            (
                "\"next_gpu\":\"g0\"",
                "\"next_gpu\":\"g1\"",
                "$.jobs[0].next_gpu",
            ),
        ] {
            let changed = waits.replace(from, to);
            assert_ne!(changed, waits, "{from}");
            assert!(lies(&changed).contains(&path.to_owned()), "{changed}");
        }
        let [second, third] = ["\"c\"", "\"d\""].map(|id| runs.replace("\"a\"", id));
        let two = format!("{runs},{second}");
        assert!(!lies(&two).contains(&"$.jobs[1].running".to_owned()));
        let three = format!("{two},{third}");
        assert!(lies(&three).contains(&"$.jobs[2].running".to_owned()));
    }
}
