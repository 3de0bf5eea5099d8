//! A live system tells what it learns: weights, estimates, deadlines; and asks how far it is.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use cluster::{OnlineSettings, Queue};
use doc::{ClusterStatus, Documents, Frame, Frames, JobState, QueueEvent, QueueStart};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn queue(gpus: u32, jobs: &[(&str, u32, f64)]) -> Queue {
    let job = |(id, rounds, train): &(&str, u32, f64)| {
        format!(
            r#"{{"id":"{id}","rounds":{rounds},"tasks_per_round":1,"train_s":{{"t":{train}}}}}"#
        )
    };
    let jobs: Vec<String> = jobs.iter().map(job).collect();
    queue_of(gpus, &jobs, 2_000)
}

/// A queue of GPUs of one type, whose searches may simulate this many starts.
fn queue_of(gpus: u32, jobs: &[String], effort: u64) -> Queue {
    let jobs = jobs.join(",");
    let text = format!(
        r#"{{"schema":"mt.cluster/1","gpus":[{{"type":"t","count":{gpus}}}],"jobs":[{jobs}]}}"#
    );
    let cluster = Documents::new(Frames::new(text.as_bytes(), "t")).next();
    let settings = OnlineSettings {
        effort: Some(effort),
        ..OnlineSettings::default()
    };
    Queue::new(cluster.unwrap().unwrap(), settings)
}

fn tell(queue: &mut Queue, event: &str) -> (Vec<QueueStart>, Option<ClusterStatus>) {
    let frame = Frame {
        bytes: event.as_bytes().to_vec(),
        source_name: "t".to_owned(),
        line: 1,
    };
    let taken = queue.take(&QueueEvent::read(&frame).unwrap()).unwrap();
    (taken.starts, taken.status)
}

/// `a` runs, `b` and `c`, which is a little longer, wait; which is next after it if this happens meanwhile?
fn next_after(event: &str) -> String {
    let mut queue = queue(1, &[("a", 1, 1.0), ("b", 2, 1.0), ("c", 2, 1.1)]);
    for job in ["a", "b", "c"] {
        tell(
            &mut queue,
            &format!(r#"{{"event":"arrival","time_s":0,"job":"{job}"}}"#),
        );
    }
    tell(&mut queue, event);
    let end = r#"{"event":"finished","time_s":1,"job":"a","round":0,"task":0}"#;
    let (starts, _) = tell(&mut queue, end);
    starts[0].task.job.to_string()
}

#[test]
fn what_is_learnt_of_a_job_changes_who_is_next() {
    assert_eq!(next_after(r#"{"event":"time","time_s":0.5}"#), "b");
    for event in [
        r#"{"event":"weight","time_s":0.5,"job":"c","weight":3}"#,
        r#"{"event":"weight","time_s":0.5,"job":"b","weight":0.3}"#,
        r#"{"event":"estimate","time_s":0.5,"job":"b","rounds_left":9}"#,
        r#"{"event":"estimate","time_s":0.5,"job":"c","rounds_left":1}"#,
        r#"{"event":"estimate","time_s":0.5,"job":"b","train_s":{"t":4}}"#,
        r#"{"event":"deadline","time_s":0.5,"job":"c","deadline_s":3.5}"#,
        r#"{"event":"cancelled","time_s":0.5,"job":"b"}"#,
    ] {
        assert_eq!(next_after(event), "c", "{event}");
    }
    // A deadline that is met anyway, and one that was taken away, change nothing.
    let far = r#"{"event":"deadline","time_s":0.5,"job":"c","deadline_s":50}"#;
    assert_eq!(next_after(far), "b");
    assert_eq!(
        next_after(r#"{"event":"deadline","time_s":0.5,"job":"c"}"#),
        "b"
    );
}

#[test]
fn a_status_says_what_runs_what_waits_and_why_and_when_it_ends() {
    let mut queue = queue(1, &[("a", 2, 1.0), ("b", 2, 1.0), ("c", 1, 8.0)]);
    for job in ["a", "b", "c"] {
        tell(
            &mut queue,
            &format!(r#"{{"event":"arrival","time_s":0,"job":"{job}"}}"#),
        );
    }
    let ask = r#"{"event":"status","time_s":0.5}"#;
    let status = tell(&mut queue, ask).1.unwrap();
    let [a, b, c] = &status.jobs[..] else {
        panic!("{status:?}");
    };
    assert_eq!(
        (a.state, a.running[0].gpu.as_str()),
        (JobState::Running, "t-0")
    );
    assert_eq!((b.state, c.state), (JobState::Waiting, JobState::Waiting));
    let ends: Vec<f64> = status
        .jobs
        .iter()
        .map(|j| j.end.unwrap().at.get())
        .collect();
    assert_eq!(ends, [2.0, 4.0, 12.0]);
    assert_eq!(
        b.waits.as_deref(),
        Some("t-0 runs a, and a goes before it there")
    );
    assert_eq!(
        c.waits.as_deref(),
        Some("t-0 runs a, and 2 jobs go before it there")
    );
    assert_eq!(c.next.as_ref().map(|n| n.0.get()), Some(4.0));
    let end = c.end.unwrap();
    assert!(end.low < end.at && end.at < end.high);

    tell(&mut queue, r#"{"event":"lost","time_s":0.6,"gpu":"t-0"}"#);
    let lost = tell(&mut queue, ask).1.unwrap();
    assert_eq!(lost.lost, ["t-0"]);
    for job in &lost.jobs {
        assert_eq!((job.state, job.end), (JobState::Waiting, None));
        let why = "it needs 1 GPUs that can run it, and 0 are usable";
        assert_eq!(job.waits.as_deref(), Some(why));
    }
}

/// Jobs whose tasks take up to `noise` more or less than is known, of which a job as a whole deviates by a part
/// of its own: how many ends are within what a status in the middle said.
fn within(seed: u64, own: f64, noise: f64) -> (usize, usize) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let names: Vec<String> = (0..14).map(|n| format!("j{n}")).collect();
    let jobs: Vec<(&str, u32, f64)> = names
        .iter()
        .map(|n| {
            (
                n.as_str(),
                rng.random_range(2..9),
                rng.random_range(1.0..6.0),
            )
        })
        .collect();
    let mut queue = queue(4, &jobs);
    let factors: Vec<f64> = jobs
        .iter()
        .map(|_| 1.0 + own * rng.random_range(-1.0..=1.0))
        .collect();
    let mut ends: Vec<(f64, String, u32)> = Vec::new();
    let mut starts = Vec::new();
    for (id, ..) in &jobs {
        starts.extend(
            tell(
                &mut queue,
                &format!(r#"{{"event":"arrival","time_s":0,"job":"{id}"}}"#),
            )
            .0,
        );
    }
    let (mut told, mut done, mut now) = (None, Vec::new(), 0.0);
    loop {
        for start in starts.drain(..) {
            let n = names
                .iter()
                .position(|n| *n == start.task.job.as_str())
                .unwrap();
            let lasts = jobs[n].2 * factors[n] * (1.0 + noise * rng.random_range(-1.0..=1.0));
            ends.push((now + lasts, names[n].clone(), start.task.round));
        }
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((at, job, round)) = ends.pop() else {
            break;
        };
        now = at;
        let event = r#"{"event":"finished","time_s":T,"job":"J","round":R,"task":0}"#
            .replace('T', &at.to_string())
            .replace('J', &job);
        starts = tell(&mut queue, &event.replace('R', &round.to_string())).0;
        done.push((job, at));
        if done.len() == 30 {
            let ask = format!(r#"{{"event":"status","time_s":{at}}}"#);
            told = tell(&mut queue, &ask).1;
        }
    }
    let last = |name: &str| {
        done.iter()
            .filter(|d| d.0 == name)
            .map(|d| d.1)
            .fold(0.0, f64::max)
    };
    let told = told.unwrap();
    let open = told.jobs.iter().filter(|j| j.state != JobState::Done);
    let ends: Vec<(f64, doc::ExpectedEnd)> = open
        .map(|j| (last(j.job.as_str()), j.end.unwrap()))
        .collect();
    let inside = |(at, e): &&(f64, doc::ExpectedEnd)| (e.low.get()..=e.high.get()).contains(at);
    (ends.iter().filter(inside).count(), ends.len())
}

#[test]
fn about_nine_of_ten_ends_are_within_the_interval_of_a_status() {
    for (own, noise) in [(0.0, 0.3), (0.3, 0.1), (0.0, 0.0)] {
        let all: Vec<(usize, usize)> = (900..920).map(|seed| within(seed, own, noise)).collect();
        let inside: usize = all.iter().map(|w| w.0).sum();
        let of: usize = all.iter().map(|w| w.1).sum();
        println!("jobs deviate by {own}, tasks by {noise}: {inside} of {of} ends within");
        // Both sides leave out a twentieth; of 150 ends two standard errors are 5 %.
        assert!(of > 100 && inside * 100 >= of * 85, "{inside} of {of}");
    }
}

/// 30 jobs of 400,000 tasks each on 15 GPUs.
fn long_queue() -> Queue {
    let jobs: Vec<String> = (0..30)
        .map(|n| {
            let train = 0.1 * f64::from(1 + n % 7);
            format!(
                r#"{{"id":"j{n}","rounds":100000,"tasks_per_round":4,"train_s":{{"t":{train}}},"sync_s":{{"t":0.01}}}}"#
            )
        })
        .collect();
    let mut queue = queue_of(15, &jobs, 20_000);
    for n in 0..30 {
        let arrival = format!(r#"{{"event":"arrival","time_s":0,"job":"j{n}"}}"#);
        tell(&mut queue, &arrival);
    }
    queue
}

#[test]
fn twelve_million_tasks_are_scheduled_while_they_run() {
    let mut queue = long_queue();
    let (_, status) = tell(&mut queue, r#"{"event":"status","time_s":0}"#);
    let jobs = status.unwrap().jobs;
    // Work over GPUs: no order has all done before, and none keeps many GPUs idle before the last jobs.
    let work: f64 = (0..30).map(|n| 4e4 * f64::from(1 + n % 7)).sum();
    let ends = jobs.iter().map(|job| job.end.unwrap().at.get());
    let last = ends.fold(0.0, f64::max);
    assert!(last >= work / 15.0 && last < 1.5 * work / 15.0, "{last}");
    assert!(jobs.iter().all(|job| job.rounds == 100_000));
    let running = jobs.iter().filter(|job| job.state == JobState::Running);
    assert!(running.count() >= 3);
    // A round goes on where the next begins, one task after another.
    let end = r#"{"event":"finished","time_s":0.11,"job":"j0","round":0,"task":0}"#;
    let (starts, _) = tell(&mut queue, end);
    assert_eq!(starts.len(), 1);
}
