use doc::{Answer, ByHand, Given, OtherTasks, Plan, Workload};

/// A plan for the volumes, transfers and link of another round.
///
/// Batch sizes and shares stay, as in a hand-written plan. Objective, verdict and fronts belong to the volumes of the
/// round that the plan was made for, so they are left out.
pub(crate) fn renewed(mut plan: Plan, now: &Workload) -> Result<Plan, OtherTasks> {
    let carried = match &mut plan.model {
        Some(model) => Some(&mut model.workload),
        None => plan.workload.as_mut(),
    };
    match carried {
        Some(workload) => workload.renew(now)?,
        None => same_names(&plan, now)?,
    }
    let given = (0..plan.tasks.len()).map(|i| Given {
        // The solo throughput may be for another batch size; only the constraints, which are left
        // out, say which.
        solo: None,
        ..plan.given(i)
    });
    let given: Vec<Given> = given.collect();
    let shares: Option<Vec<units::Share>> = given.iter().map(|g| g.share).collect();
    let rv = shares.map(|all| all.into_iter().sum());
    plan.answer = Answer::ByHand(ByHand { given, rv });
    for task in &mut plan.tasks {
        if let Some(new) = now.task_index(&task.id).map(|i| &now.tasks[i]) {
            task.samples = new.samples;
            task.update_bytes = new.update_bytes;
            task.load = None;
        }
    }
    plan.link = now.link;
    if now.id.is_some() {
        plan.id.clone_from(&now.id);
    }
    Ok(plan)
}

/// Checks, for a plan without a workload, that `now` has tasks of the same names.
fn same_names(plan: &Plan, now: &Workload) -> Result<(), OtherTasks> {
    let mut here: Vec<&str> = plan.tasks.iter().map(|t| t.id.as_str()).collect();
    let mut there: Vec<&str> = now.tasks.iter().map(|t| t.id.as_str()).collect();
    here.sort_unstable();
    there.sort_unstable();
    if here == there {
        return Ok(());
    }
    Err(OtherTasks {
        now: there.join(", "),
        known: here.join(", "),
    })
}
