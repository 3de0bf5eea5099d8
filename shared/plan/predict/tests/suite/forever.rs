//! Old models must remain readable for ever, with the same predictions.
//!
//! `tests/suite/forever/*.json` are model documents of released formats, each with a file of its predictions.
//! `BLESS=1` writes the predictions of a model that has none yet, and never changes others.

use std::fs;
use std::path::{Path, PathBuf};

use doc::Model;
use predict::Predictor;
use units::Share;
use units::corun::Setting;

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/forever");
    let files = fs::read_dir(folder)
        .expect("the folder of models")
        .map(|e| e.expect("an entry").path());
    let mut v: Vec<PathBuf> = files
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    v.sort();
    v
}

fn answers(path: &Path) -> String {
    let file = std::io::BufReader::new(fs::File::open(path).expect("a model"));
    let model: Model = crate::read(file);
    let predictor = Predictor::from_model(&model).expect("a predictor");
    let mut out = String::new();
    for k in 0..12_u32 {
        let active: Vec<Setting> = model
            .workload
            .tasks
            .iter()
            .enumerate()
            .filter(|(i, _)| k < 8 || *i != (k % 3) as usize)
            .map(|(task, t)| Setting {
                task,
                batch: t.batch_sizes[(k as usize + task) % t.batch_sizes.len()],
                share: Share::from_percent(f64::from((k * 7 + task as u32 * 3) % 10 + 1) * 10.0)
                    .expect("a share"),
            })
            .collect();
        for p in predictor.predict(&active) {
            out += &format!("{} {}\n", p.samples_per_s, p.std_error);
        }
    }
    out
}

#[test]
fn old_models_predict_what_they_always_did() {
    let models = models();
    assert!(models.len() >= 3, "a model of every family is kept");
    for path in models {
        let expected = path.with_extension("txt");
        let found = answers(&path);
        if !expected.exists() && std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let expected = fs::read_to_string(expected).unwrap();
        let numbers =
            |t: &str| -> Vec<f64> { t.split_whitespace().map(|n| n.parse().unwrap()).collect() };
        let (a, b) = (numbers(&found), numbers(&expected));
        assert_eq!(a.len(), b.len());
        for (at, (x, y)) in a.iter().zip(b).enumerate() {
            // Rates do not change. Their uncertainty may be calibrated again on later recordings.
            let within = if at % 2 == 0 { 1.0 + 1e-9 } else { 2.0 };
            assert!(
                (x / y).max(y / x) <= within,
                "{}: {x} was {y}",
                path.display()
            );
        }
    }
}
