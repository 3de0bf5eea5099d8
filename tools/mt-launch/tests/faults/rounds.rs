//! Whole rounds: order and overlap of phases compared with the timeline, metrics, adaption.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use doc::{Documents, EventKind, Frames, Hold, PhaseKind, Plan, Timeline};
use overlap::{OrderOptions, PlanRequest, order_plan};

use crate::support::{Corner, GOOD, Ran, job, needs_cgroups, ran};

/// Bytes per second of the link in each direction.
const RATE: f64 = 1e6;

/// A server on the loopback that sends and receives bytes at [`RATE`]. It counts how often two transfers of one
/// direction run at once.
fn link() -> (u16, Arc<AtomicI32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let clashes = Arc::new(AtomicI32::new(0));
    let counted = clashes.clone();
    std::thread::spawn(move || {
        let busy = Arc::new([AtomicI32::new(0), AtomicI32::new(0)]);
        for stream in listener.incoming().flatten() {
            let (busy, clashes) = (busy.clone(), counted.clone());
            std::thread::spawn(move || serve(stream, &busy, &clashes));
        }
    });
    (port, clashes)
}

/// It answers `down N` with N bytes, and `up N` followed by N bytes with a line.
fn serve(mut stream: TcpStream, busy: &[AtomicI32; 2], clashes: &AtomicI32) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (verb, bytes) = line.trim().split_once(' ')?;
    let bytes: usize = bytes.parse().ok()?;
    let direction = &busy[usize::from(verb == "up")];
    if direction.fetch_add(1, Ordering::SeqCst) > 0 {
        clashes.fetch_add(1, Ordering::SeqCst);
    }
    let begun = Instant::now();
    let mut chunk = vec![0; 16 * 1024];
    let mut moved = 0;
    while moved < bytes {
        let n = chunk.len().min(bytes - moved);
        if verb == "up" {
            reader.read_exact(&mut chunk[..n]).ok()?;
        } else {
            stream.write_all(&chunk[..n]).ok()?;
        }
        moved += n;
        let due = Duration::from_secs_f64(moved as f64 / RATE);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    direction.fetch_sub(1, Ordering::SeqCst);
    if verb == "up" {
        stream.write_all(b"taken\n").ok()?;
    }
    Some(())
}

/// Samples per second of a job that trains 10 every 50 ms.
const PACE: f64 = 200.0;

/// A plan of three tasks whose compute takes the same time at any load; `rate` gives the claimed rate of each, by the
/// number of tasks that compute.
fn plan(port: u16, rate: fn(usize) -> f64) -> Plan {
    let sizes = [
        (900_000, 200, 500_000),
        (500_000, 320, 600_000),
        (700_000, 400, 400_000),
    ];
    // Paced by the clock, not by the length of the pauses.
    let train = r#"echo '{"mt":"ready"}'; n=0; begun=$(date +%s%N)
        while [ $n -lt $MT_SAMPLES ]; do n=$((n+10)); due=$((begun + n * 5000000))
        left=$(( (due - $(date +%s%N)) / 1000000 ))
        [ $left -gt 0 ] && sleep $(printf '0.%03d' $left)
        echo '{"mt":"step","samples":10}'; done"#;
    let mut planned = Vec::new();
    let mut tasks = Vec::new();
    for (i, (down, samples, up)) in sizes.iter().enumerate() {
        let open = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let download = format!("{open}; echo down {down} >&3; cat <&3 >/dev/null");
        let upload = format!("{open}; echo up {up} >&3; head -c {up} /dev/zero >&3; read -r x <&3");
        planned.push(format!(
            r#"{{"id":"t{i}","batch":10,"share_percent":30,"samples":{samples},
               "update_bytes":{{"down":{down},"up":{up}}}}}"#
        ));
        let words = |script: &str| serde_json::to_string(&["bash", "-c", script]).unwrap();
        tasks.push(format!(
            r#"{{"id":"t{i}","flops_per_sample":5e10,"bytes_per_sample":1e7,"batch_sizes":[10],"job":{{"argv":{},"download":{},"upload":{}}}}}"#,
            words(train),
            words(&download),
            words(&upload)
        ));
    }
    let mut rows = Vec::new();
    for set in 1..8 {
        let names: Vec<String> = (0..3)
            .filter(|i| set & (1 << i) != 0)
            .map(|i| format!("\"t{i}\""))
            .collect();
        let rate = rate(names.len());
        let rates: Vec<String> = names.iter().map(|n| format!("{n}:{rate}")).collect();
        rows.push(format!(
            r#"{{"active":[{}],"samples_per_s":{{{}}}}}"#,
            names.join(","),
            rates.join(",")
        ));
    }
    let bits = RATE * 8.0;
    let text = format!(
        r#"{{"schema":"mt.plan/1","link":{{"down_bps":{bits},"up_bps":{bits}}},"tasks":[{}],
           "rates":[{}],"workload":{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},
           "tasks":[{}]}}}}"#,
        planned.join(","),
        rows.join(","),
        tasks.join(",")
    );
    let frames = Frames::new(std::io::Cursor::new(text.replace('\n', " ")), "plan");
    Documents::new(frames).next().unwrap().unwrap()
}

fn measured(corner: &Corner, arguments: &[&str]) -> (Ran, f64) {
    let ran = ran(corner.command(arguments).output().unwrap());
    assert_eq!(
        ran.code,
        Some(0),
        "{} {:?}",
        ran.stderr,
        ran.reasons(EventKind::Stop)
    );
    corner.nothing_is_left();
    let makespan = ran.first(EventKind::Round).makespan_s.unwrap();
    (ran, makespan)
}

#[test]
fn a_round_takes_what_the_timeline_says_and_overlap_gains_what_it_says() {
    needs_cgroups!();
    let (port, clashes) = link();
    let timeline: Timeline = order_plan(
        plan(port, |_| PACE),
        None,
        &PlanRequest::default(),
        &OrderOptions::default(),
    )
    .unwrap();
    let corner = Corner::new();
    let mut text = Vec::new();
    doc::write_line(&mut text, &timeline).unwrap();
    fs::write(corner.path("plan.json"), text).unwrap();
    let (planned, off) = (timeline.makespan.get(), timeline.overlap_off.get());
    let planned_gain = 1.0 - planned / off;
    assert!(planned_gain > 0.2, "{planned_gain}");
    let mut seen = Vec::new();
    // A busy machine may delay one round, but not three in a row.
    for _ in 0..3 {
        let (ran, with) = measured(&corner, &["--keep-shares"]);
        let (_, without) = measured(&corner, &["--keep-shares", "--no-overlap"]);
        assert_eq!(
            clashes.load(Ordering::SeqCst),
            0,
            "two transfers in one direction"
        );
        let orders = [
            (PhaseKind::Download, &timeline.download_order),
            (PhaseKind::Upload, &timeline.upload_order),
        ];
        for (kind, order) in orders {
            let starts: Vec<f64> = order
                .iter()
                .map(|i| ran.phase(&format!("t{i}"), kind).0)
                .collect();
            assert!(starts.is_sorted(), "{kind:?} {starts:?}");
        }
        let gain = 1.0 - with / without;
        seen.push((with / planned, gain - planned_gain));
        if (with / planned - 1.0).abs() < 0.10 && (gain - planned_gain).abs() < 0.05 {
            return;
        }
    }
    // Trainings that share the processors with as many others take longer than planned.
    let load: f64 = fs::read_to_string("/proc/loadavg")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    if load > 2.0 * cores as f64 {
        return testkit::skipped("quiet", format!("the load of {cores} processors is {load}"));
    }
    panic!("(measured / planned, gain - planned gain): {seen:?}");
}

/// If tasks that compute together are claimed to be far slower, the timeline holds some back, and so does the launch:
/// on the simulator, which has other rates, and with processes.
#[test]
fn what_a_timeline_holds_back_is_held_back() {
    let (port, _) = link();
    let slow_together = |computing: usize| PACE / (computing * computing) as f64;
    let planned = plan(port, slow_together);
    let (request, options) = (PlanRequest::default(), OrderOptions::default());
    let timeline: Timeline = order_plan(planned, None, &request, &options).unwrap();
    assert!(!timeline.holds.is_empty(), "{timeline:?}");
    let follows = |ran: &Ran, holds: &[Hold]| {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for h in holds {
            let start = ran.phase(&format!("t{}", h.task), h.phase).0;
            let end = ran.phase(&format!("t{}", h.until), h.end_of).1;
            assert!(start >= end, "{h:?}: {start} {end}");
            if h.phase == PhaseKind::Compute {
                let download = ran.phase(&format!("t{}", h.task), PhaseKind::Download).1;
                assert!(download < end, "{h:?} holds nothing: {download} {end}");
            }
        }
    };
    let corner = Corner::new();
    let write = |timeline: &Timeline| {
        let mut text = Vec::new();
        doc::write_line(&mut text, timeline).unwrap();
        fs::write(corner.path("plan.json"), text).unwrap();
    };
    let simulate = || ran(corner.command(&["--device", "sim"]).output().unwrap());
    // A search would only do this if it helps: the last download waits for the first upload.
    let mut apart = timeline.clone();
    apart.holds = vec![Hold {
        task: *timeline.download_order.last().unwrap(),
        phase: PhaseKind::Download,
        until: timeline.upload_order[0],
        end_of: PhaseKind::Upload,
    }];
    write(&apart);
    follows(&simulate(), &apart.holds);
    write(&timeline);
    follows(&simulate(), &timeline.holds);
    needs_cgroups!();
    let (processes, makespan) = measured(&corner, &["--keep-shares"]);
    follows(&processes, &timeline.holds);
    println!(
        "a round with {} holds: planned {:.2} s, measured {makespan:.2} s",
        timeline.holds.len(),
        timeline.makespan.get()
    );
}

#[test]
fn metrics_are_written_whole() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD)], &["--prometheus", "metrics.prom"]);
    assert_eq!(ran.code, Some(0));
    let text = corner.log("metrics.prom");
    assert!(text.contains("mt_task_samples{task=\"a\"} 30\n"), "{text}");
    assert!(text.contains("mt_task_state{task=\"a\",state=\"done\"} 1\n"));
    let ran = corner.launch(&[job("a", GOOD)], &["--prometheus", "/no/such/dir/m"]);
    assert_eq!(ran.code, Some(2), "told before anything is started");
    assert!(ran.stderr.contains("there is no folder /no/such/dir"));
    // A later failure is ignored: metrics are not worth a night of training.
    fs::create_dir(corner.path("there")).unwrap();
    let remover = format!("rmdir there; {GOOD}; sleep 1.5");
    let ran = corner.launch(&[job("a", &remover)], &["--prometheus", "there/m"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot write the metrics"));
}

#[test]
fn adaption_without_a_model_says_so_and_goes_on() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD)], &["--rounds", "2", "--adapt"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("carries no model"), "{}", ran.stderr);
    assert_eq!(ran.of(EventKind::Round).len(), 2);
}
