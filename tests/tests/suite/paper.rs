//! The reduced form of the reproduction of the FedMT paper.

use std::collections::BTreeMap;
use std::fs;

use mt_tests::{Folder, example, tools};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    command: String,
    inputs_sha256: String,
    ratio_mae: f64,
    ratio_mae_3080: f64,
    isolated_above_sharing_max: f64,
    temporal_error_max_percent: f64,
    rv_best_percent: f64,
    rv_gain_over_sharing: f64,
    completion_min: f64,
    completion_predicted_min: f64,
    completion_predicted_mean: f64,
    rank_top_percent_max: f64,
    rank_predicted_top_percent_max: f64,
    table1_error_points_max: f64,
    over_isolated_mean: f64,
    over_isolated_mean_paper: f64,
    over_sharing_mean: f64,
    over_sharing_mean_paper: f64,
    over_equal_shares_mean: f64,
    over_equal_shares_max: f64,
    over_best_static_min: f64,
    cycle_throughput_min: f64,
    cycle_throughput_max: f64,
    cycle_round_min: f64,
    cycle_round_max: f64,
    table1_time_error_percent_max: f64,
    table1_rate_error_percent_max: f64,
    table1: Vec<Speedups>,
    scheduling_overhead_percent_max: f64,
    search_points: usize,
    search_ms: f64,
    search_gap_percent: f64,
    device: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Speedups {
    mix: String,
    ours_percent: f64,
    literal_percent: f64,
    paper_percent: f64,
}

#[test]
fn the_reduced_reproduction_is_complete_and_good() {
    let folder = Folder::new();
    let examples = tools().join("examples");
    let run = example("paper/run.sh");
    let line = format!(
        "PATH='{}':$PATH OUT=\"$PWD/out\" QUICK=1 sh '{run}'",
        examples.display()
    );
    let ran = folder.run(&line);
    ran.assert_code(0);
    let out = folder.path().join("out");
    let text = fs::read_to_string(out.join("summary.json")).unwrap();
    let s: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(s.device, "sim (simulated)");
    assert_eq!(s.command, "make paper");
    assert_eq!(s.inputs_sha256.len(), 64, "{s:?}");
    // A choice by prediction alone, like the paper's, is no better than the best measured one.
    let alone = s.completion_predicted_min..=1.0;
    assert!(s.completion_predicted_min >= 0.9, "{s:?}");
    assert!(alone.contains(&s.completion_predicted_mean), "{s:?}");
    assert!(s.rank_predicted_top_percent_max <= 100.0, "{s:?}");
    for row in &s.table1 {
        let all = [row.ours_percent, row.literal_percent, row.paper_percent];
        assert!(
            all.iter().all(|p| (0.0..100.0).contains(p)),
            "{}: {all:?}",
            row.mix
        );
    }
    assert!(s.ratio_mae > 0.0 && s.ratio_mae_3080 > 0.0, "{s:?}");
    assert!(s.isolated_above_sharing_max <= 0.05, "{s:?}");
    assert!(s.temporal_error_max_percent <= 25.0, "{s:?}");
    assert!((180.0..=240.0).contains(&s.rv_best_percent), "{s:?}");
    assert!(s.rv_gain_over_sharing >= 1.1, "{s:?}");
    assert!(s.completion_min >= 0.97, "{s:?}");
    // None of 25 random schedules may be better than ours.
    assert!(s.rank_top_percent_max < 4.0, "{s:?}");
    // With the paper's volumes and each model moved once, nothing is fitted: times are off by up to 8 %, the speed-up
    // by overlap by 9 points (RESULTS.md says why).
    assert!(s.table1_time_error_percent_max <= 15.0, "{s:?}");
    assert!(s.table1_rate_error_percent_max <= 15.0, "{s:?}");
    assert!(s.table1_error_points_max <= 14.0, "{s:?}");
    assert!(
        s.over_isolated_mean > 1.15 && s.over_isolated_mean_paper > 1.3,
        "{s:?}"
    );
    assert!(
        s.over_sharing_mean > 1.0 && s.over_sharing_mean_paper > 1.2,
        "{s:?}"
    );
    assert!(s.over_best_static_min >= 1.0, "{s:?}");
    let equal = 1.0..=s.over_equal_shares_max;
    assert!(equal.contains(&s.over_equal_shares_mean), "{s:?}");
    // While all run, and for the round; with volumes 1:2:3 the largest is alone at the end.
    assert!(
        s.cycle_throughput_min > 1.5 && s.cycle_throughput_max < 3.0,
        "{s:?}"
    );
    assert!(s.cycle_round_min > 1.2 && s.cycle_round_max < 3.0, "{s:?}");
    // Branch and bound finds the best of the 162 points.
    assert_eq!(s.search_points, 162);
    assert!(
        s.search_gap_percent.abs() < 1e-6 && s.search_ms > 0.0,
        "{s:?}"
    );
    assert!(s.scheduling_overhead_percent_max > 0.0, "{s:?}");

    let mut pictures = BTreeMap::new();
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "svg") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            pictures.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    for name in [
        "fig6.throughput",
        "fig6.rv",
        "fig6.predicted",
        "fig6.schemes",
        "fig6.occupancy",
        "fig6.random",
        "overlap0",
        "cycle0_2.123",
        "cycle0_2.pareto",
    ] {
        assert!(pictures.contains_key(&format!("{name}.svg")), "{name}");
    }
    for (name, picture) in pictures {
        assert!(picture.contains("simulated"), "{name}");
    }
    for heading in [
        "Tables IV and V",
        "Fig. 6",
        "Fig. 7",
        "Fig. 9",
        "Fig. 10",
        "Figs. 11 and 12",
        "Table III and Fig. 13",
        "Table I:",
        "Scheduling overhead",
        "Table II",
    ] {
        assert!(ran.stdout.contains(heading), "{heading}");
    }
}
