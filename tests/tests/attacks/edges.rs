//! Absurd measurements, and unavailable devices.

use std::fs;

use mt_tests::Folder;

use crate::documents;

/// Rates beyond the range of the arithmetic are refused; below it, a model has finite numbers. At 1e30 itself a model
/// may predict more for a batch size that was not measured, which a plan refuses.
#[test]
fn one_sample_of_a_rate_beyond_belief_makes_no_model_of_nothing() {
    let folder = documents();
    let profile = fs::read_to_string(folder.path().join("p")).unwrap();
    let (before, rest) = profile.rsplit_once("\"samples_per_s\":").unwrap();
    let end = rest.find([',', '}']).unwrap();
    for (rate, codes) in [
        ("1e308", vec![2]),
        ("1.1e30", vec![2]),
        ("1e29", vec![0]),
        ("1e-300", vec![0, 2]),
    ] {
        let text = format!("{before}\"samples_per_s\":{rate}{}", &rest[end..]);
        fs::write(folder.path().join("odd"), text).unwrap();
        for method in ["gp", "structured"] {
            let out = folder.run(&format!(
                "mt-fit -q --method {method} odd > model && mt-solve --step 20 model > plan"
            ));
            let code = out.code.unwrap();
            assert!(codes.contains(&code), "{method} {rate}: {out:#?}");
            let made = folder.run("cat model plan").stdout;
            assert!(!made.contains("null"), "{method} {rate}: {made}");
            if code == 2 {
                assert!(out.stderr.contains("error E"), "{method} {rate}: {out:#?}");
            }
        }
    }
}

/// Milliseconds: a second, and another for a busy machine.
const PATIENCE_MS: u64 = 2_000;

#[test]
fn a_device_that_cannot_be_had_is_told_at_once() {
    let folder = Folder::new();
    let workload = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
        {"id":"a","batch_sizes":[8],"flops_per_sample":1000000,"bytes_per_sample":1000000,
         "job":{"argv":["sleep","60"]}}]}"#;
    let plan = format!(
        r#"{{"schema":"mt.plan/1","tasks":[{{"id":"a","batch":8,"share_percent":50}}],"workload":{workload}}}"#
    );
    fs::write(folder.path().join("w"), workload).unwrap();
    fs::write(folder.path().join("plan"), plan).unwrap();
    let without = "env MT_CGROUP_PARENT=/no/such/folder CUDA_VISIBLE_DEVICES=";
    for tool in [
        "mt-launch plan",
        "mt-launch --device cuda plan",
        "mt-launch exec --plan plan --task a true",
        "mt-profile w",
        "mt-profile --device cuda w",
    ] {
        let out = folder.run(&format!(
            "begun=$(date +%s%N); {without} {tool}; code=$?
             echo took $(( ($(date +%s%N) - begun) / 1000000 )); exit $code"
        ));
        assert_eq!(out.code, Some(3), "{tool}: {out:#?}");
        assert!(!out.stderr.is_empty(), "{tool}");
        let took: u64 = out
            .stdout
            .trim()
            .strip_prefix("took ")
            .unwrap()
            .parse()
            .unwrap();
        assert!(took < PATIENCE_MS, "{tool}: {took} ms");
    }
}
