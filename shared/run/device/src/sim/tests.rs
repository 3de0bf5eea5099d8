use doc::{Documents, Frames};
use units::corun::Setting;
use units::{Batch, Share};

use super::*;
use crate::open;

fn workload(text: &str) -> Workload {
    let json = text.replace("SCHEMA", "mt.workload/1");
    Documents::<_, Workload>::new(Frames::new(json.as_bytes(), "test"))
        .next()
        .unwrap()
        .unwrap_or_else(|e| panic!("{e}"))
}

const PAIR: &str = r#"{"schema":"SCHEMA","device":{"kind":"sim","gpu":"titan-v"},"tasks":[
    {"id":"a","model":"resnet18","batch_sizes":[32,128]},
    {"id":"b","model":"vgg16","batch_sizes":[64]}]}"#;

fn run(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    }
}

fn once(repeats: u32, least: f64) -> Window {
    Window {
        least: Seconds::new(least).unwrap(),
        most: Seconds::new(60.0).unwrap(),
        precision: 0.01,
        repeats,
    }
}

fn options(noise_percent: f64) -> Options {
    Options {
        seed: 5,
        noise_percent,
        ..Options::default()
    }
}

#[test]
fn a_corun_is_slower_than_alone_and_says_it_is_simulated() {
    let mut opened = open(&workload(PAIR), &options(0.0)).unwrap();
    assert_eq!(opened.note, None);
    assert!(opened.device.fingerprint().simulated);
    let mut rate = |runs: &[Setting]| {
        let m = opened.device.measure(runs, &once(1, 0.0)).unwrap();
        assert!(m.rates.iter().all(|r| r.stderr.is_none()));
        m.rates[0].throughput.get()
    };
    let alone = rate(&[run(0, 32, 100.0)]);
    let together = rate(&[run(0, 32, 100.0), run(1, 64, 100.0)]);
    assert!(together < alone, "{together} {alone}");
}

#[test]
fn noise_is_a_function_of_seed_and_configuration() {
    let pair = [run(0, 32, 50.0), run(1, 64, 80.0)];
    let measure = |noise, repeats| {
        let mut sim = open(&workload(PAIR), &options(noise)).unwrap().device;
        // Earlier measurements have no effect.
        sim.measure(&[run(1, 64, 100.0)], &once(1, 0.0)).unwrap();
        sim.measure(&pair, &once(repeats, 0.0)).unwrap()
    };
    let (clean, noisy) = (measure(0.0, 1), measure(5.0, 1));
    assert_eq!(noisy, measure(5.0, 1));
    for (a, b) in clean.rates.iter().zip(&noisy.rates) {
        let ratio = b.throughput.get() / a.throughput.get();
        assert!(ratio != 1.0 && (0.7..1.3).contains(&ratio), "{ratio}");
        let stderr = b.stderr.unwrap().get() / b.throughput.get();
        assert!((stderr - 0.05).abs() < 1e-12);
    }
    let four = measure(5.0, 4);
    assert_eq!(four.repeats, 4);
    assert!(four.rates[0].stderr.unwrap().get() / four.rates[0].throughput.get() >= 0.025);
}

#[test]
fn a_longer_window_is_simulated_when_asked_for() {
    let mut sim = Sim::open(&workload(PAIR), &options(0.0)).unwrap();
    let runs = [run(0, 32, 100.0)];
    let short = sim.measure(&runs, &once(1, 0.0)).unwrap().window.get();
    let long = sim.measure(&runs, &once(1, 5.0)).unwrap().window.get();
    assert!(short < 1.0 && long >= 4.5, "{short} {long}");
}

#[test]
fn what_does_not_fit_into_memory_fails_and_others_go_on() {
    let text = PAIR.replace("\"titan-v\"", "\"titan-v\",\"memory_bytes\":1500000000");
    let mut sim = open(&workload(&text), &options(0.0)).unwrap().device;
    let pair = [run(0, 32, 50.0), run(1, 64, 50.0)];
    let error = sim.measure(&pair, &once(1, 0.0)).unwrap_err();
    assert!(error.is_memory() && error.to_string().contains("out of memory"));
    assert!(sim.measure(&pair[..1], &once(1, 0.0)).is_ok());
}

#[test]
fn facts_of_the_catalogue_are_filled_in_and_what_is_given_stays() {
    let text = PAIR.replace(
        "\"model\":\"vgg16\"",
        "\"model\":\"vgg16\",\"update_bytes\":{\"down\":7,\"up\":8}",
    );
    let opened = open(&workload(&text), &options(0.0)).unwrap();
    let [a, b] = &opened.workload.tasks[..] else {
        panic!("two tasks");
    };
    let flops = a.flops_per_sample.unwrap().get();
    assert!(flops > 1e8 && a.bytes_per_sample.unwrap() > 1e6);
    assert!(a.memory.is_some() && b.memory.is_some());
    // ResNet18 has 11.7 million parameters.
    let update = a.update_bytes.unwrap().down.get() as f64;
    assert!((update / 46.8e6 - 1.0).abs() < 0.02, "{update}");
    assert_eq!(b.update_bytes.unwrap().up.get(), 8);
    assert_eq!(opened.workload.device.memory.unwrap().get(), 12 << 30);
    // Filling in facts changes no simulated number.
    let mut again = Sim::open(&opened.workload, &options(0.0)).unwrap();
    let mut plain = Sim::open(&workload(&text), &options(0.0)).unwrap();
    let runs = [run(0, 32, 40.0), run(1, 64, 40.0)];
    assert_eq!(
        again.measure(&runs, &once(1, 0.0)),
        plain.measure(&runs, &once(1, 0.0))
    );
}

#[test]
fn faults_of_a_workload_name_their_place() {
    for (from, to, path) in [
        ("titan-v", "titan-9", "$.device.gpu"),
        ("vgg16", "vgg99", "$.tasks[1].model"),
        (
            "\"model\":\"vgg16\"",
            "\"job\":{\"argv\":[\"x\"]}",
            "$.tasks[1]",
        ),
        (
            "\"model\":\"resnet18\"",
            "\"layers\":[{\"kind\":\"linear\",\"in_features\":0,\"out_features\":3}]",
            "$.tasks[0].layers",
        ),
    ] {
        let Err(OpenError::Workload(fault)) =
            open(&workload(&PAIR.replace(from, to)), &options(0.0))
        else {
            panic!("{to} must be refused");
        };
        assert_eq!(fault.path, path);
    }
}

#[test]
fn totals_layers_and_a_described_gpu_can_be_simulated() {
    let text = r#"{"schema":"SCHEMA","device":{"kind":"sim","gpu_description":{"name":"mine",
        "sms":20,"fp32_tflops":5,"memory_gb_per_s":200,
        "host":{"us_per_step":0,"us_per_sample":0,"contention":0,"launch_us":9}}},"tasks":[
        {"id":"t","flops_per_sample":3e9,"bytes_per_sample":3e7,"batch_sizes":[32]},
        {"id":"l","batch_sizes":[8],"layers":[
          {"kind":"conv","in_channels":3,"out_channels":64,"kernel":3,"stride":1,"out_pixels":64,"groups":1},
          {"kind":"norm","channels":64,"pixels":64},{"kind":"pool","channels":64,"out_pixels":32},
          {"kind":"linear","in_features":65536,"out_features":10}]}]}"#;
    let mut opened = open(&workload(text), &options(0.0)).unwrap();
    assert_eq!(opened.device.fingerprint().units, Some(20));
    assert_eq!(opened.workload.device.memory, None);
    let runs = [run(0, 32, 50.0), run(1, 8, 50.0)];
    let rates = opened.device.measure(&runs, &once(1, 0.0)).unwrap().rates;
    assert!(rates.iter().all(|r| r.throughput.get() > 0.0));
    // 3e9 x samples/s cannot exceed the peak rate.
    assert!(rates[0].throughput.get() * 3e9 < 5e12);
}

/// A repeated measurement has new noise, which depends only on the number of earlier ones.
#[test]
fn noise_is_drawn_anew_when_measured_again() {
    let pair = [run(0, 32, 50.0), run(1, 64, 80.0)];
    let rates = |noise, before| -> Vec<f64> {
        let mut sim = open(&workload(PAIR), &options(noise)).unwrap().device;
        let measured = sim.measure_again(&pair, &once(3, 0.0), before).unwrap();
        measured.rates.iter().map(|r| r.throughput.get()).collect()
    };
    let mut sim = open(&workload(PAIR), &options(5.0)).unwrap().device;
    let first: Vec<f64> = sim
        .measure(&pair, &once(3, 0.0))
        .unwrap()
        .rates
        .iter()
        .map(|r| r.throughput.get())
        .collect();
    assert_eq!(rates(5.0, 0), first);
    assert_eq!(rates(5.0, 1), rates(5.0, 1));
    // The mean of many noisy values equals the value without noise, within five standard errors.
    let (clean, many) = (rates(0.0, 0), 40);
    let all: Vec<Vec<f64>> = (0..many).map(|before| rates(5.0, before)).collect();
    for task in 0..2 {
        let mean = all.iter().map(|r| r[task]).sum::<f64>() / f64::from(many);
        let error = 0.05 / f64::from(3 * many).sqrt();
        assert!((mean / clean[task] - 1.0).abs() < 5.0 * error, "{mean}");
        let mut each: Vec<f64> = all.iter().map(|r| r[task]).collect();
        each.sort_by(f64::total_cmp);
        each.dedup();
        assert_eq!(each.len(), all.len(), "each is a draw of its own");
    }
}

/// A configuration that was simulated ahead gives the same result as alone, and is only used for the same window.
#[test]
fn what_comes_next_is_simulated_along() {
    let configurations = [
        vec![run(0, 32, 100.0)],
        vec![run(1, 64, 100.0)],
        vec![run(0, 128, 50.0), run(1, 64, 60.0)],
        vec![run(0, 32, 20.0), run(1, 64, 30.0)],
    ];
    let open = || Sim::open(&workload(PAIR), &options(3.0)).unwrap();
    let (mut told, mut untold) = (open(), open());
    for (k, runs) in configurations.iter().enumerate() {
        told.expect(configurations[k + 1..].to_vec());
        let window = once(2, if k == 2 { 0.5 } else { 0.0 });
        let along = told.measure(runs, &window).unwrap();
        assert_eq!(along, untold.measure(runs, &window).unwrap(), "{k}");
        let next = configurations.get(k + 1);
        let is_known = told.ahead.iter().any(|a| Some(&a.configuration) == next);
        assert!(k > 0 || is_known || processors() == 1);
    }
}
