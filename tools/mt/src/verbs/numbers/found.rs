//! What was learnt about a template on a device, and how it was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use queue::learnt::Learnt;
use queue::message::{JobStatus, Word};

/// What was learnt about a template on a device. Unknown values are absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// The template.
    pub template: String,
    /// A unique name derived from the template: lower-case letters, digits and dashes; it begins with a letter.
    #[serde(skip)]
    pub name: String,
    /// Name of the device, as in the file name of the store.
    pub device: String,
    /// Number of processors of the device; absent for a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<f64>,
    /// Best number of jobs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
    /// Throughput at that number relative to one job alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// Processors that one job keeps busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wants: Option<f64>,
    /// Largest part of a GPU for each job (active thread percentage), percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_percent: Option<f64>,
    /// Peak GPU memory of a job, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<u64>,
    /// Peak RAM of a job, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<u64>,
    /// How the values were measured, one sentence each.
    pub measured: Vec<String>,
}

impl Found {
    fn of(template: String, device: String, learnt: &Learnt, ram: Option<&Ram>) -> Self {
        let processors = processors_of(&device);
        // The first level of a template is only a starting value until something was compared or measured.
        let compared = learnt.level > 1 || learnt.halving || learnt.step == 0;
        let known = learnt.wants.is_some() || (processors.is_none() && compared);
        let mut measured = Vec::new();
        if !known {
            measured.push("how many at once: not known yet".to_owned());
        } else if let Some(wants) = learnt.wants {
            measured.push(format!(
                "{} at once, since one keeps {wants:.2} processors busy",
                learnt.level
            ));
        } else {
            let gives = learnt.over_alone().map_or_else(
                || format!("{} at once are best", learnt.level),
                |over| {
                    format!(
                        "{} at once achieve {over:.2} times the throughput of one",
                        learnt.level
                    )
                },
            );
            measured.push(format!(
                "{gives}, by the progress of the jobs{}",
                if learnt.step == 0 {
                    ""
                } else {
                    "; more were not tried yet"
                }
            ));
        }
        measured.extend(learnt.tried());
        let on_gpu = learnt.peak.filter(|_| processors.is_none());
        let of_done = ram.map(|ram| ram.bytes);
        let ram_bytes = of_done.max(learnt.peak.filter(|_| processors.is_some()));
        if processors.is_none() {
            let known = if on_gpu.is_some() {
                "the most of a job"
            } else {
                "not known"
            };
            measured.push(format!("memory of the GPU: {known}"));
        }
        measured.push(match (ram, ram_bytes) {
            (Some(ram), _) => format!("RAM: the most of {} jobs that were done", ram.jobs),
            (None, Some(_)) => "RAM: the most of a job".to_owned(),
            (None, None) => "RAM: not known, no job ran long enough to be seen".to_owned(),
        });
        Self {
            name: name(&template),
            template,
            device,
            processors,
            at_once: known.then_some(learnt.level),
            speedup: learnt.over_alone().filter(|_| known),
            wants: learnt.wants,
            cap_percent: learnt.cap.map(f64::from),
            device_memory: on_gpu,
            ram: ram_bytes,
            measured,
        }
    }
}

/// Maximum length of a name: Kubernetes allows 63 characters, and its controllers append some.
const LONGEST: usize = 40;

/// A name for a template, made of its words without their folders.
fn name(template: &str) -> String {
    let words: Vec<&str> = template
        .split_whitespace()
        .filter_map(|w| w.rsplit('/').next())
        .collect();
    let text = words.join("-").to_ascii_lowercase();
    let mut name = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c),
            false if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            false => {}
        }
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "job-");
    }
    name.truncate(LONGEST);
    name.trim_end_matches('-').to_owned()
}

/// Number of processors of a device of the store, from its name (`2 processors`); `None` for a GPU.
fn processors_of(device: &str) -> Option<f64> {
    device.strip_suffix("-processors")?.parse().ok()
}

/// Peak RAM over the jobs of a template.
#[derive(Debug, Default)]
struct Ram {
    bytes: u64,
    jobs: usize,
}

/// All results, sorted by template and then by device. The RAM of a job is assumed to be the same on each device.
#[must_use]
pub fn of(learnt: BTreeMap<String, BTreeMap<String, Learnt>>, jobs: &[JobStatus]) -> Vec<Found> {
    let mut ram: BTreeMap<&str, Ram> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.state == Word::Done) {
        let Some(bytes) = job.peak_memory else {
            continue;
        };
        let ram = ram.entry(&job.template).or_default();
        (ram.bytes, ram.jobs) = (ram.bytes.max(bytes), ram.jobs + 1);
    }
    let mut all = Vec::new();
    for (device, templates) in learnt {
        for (template, learnt) in templates {
            let ram = ram.get(&*template);
            all.push(Found::of(template, device.clone(), &learnt, ram));
        }
    }
    all.sort_by(|a, b| (&a.template, &a.device).cmp(&(&b.template, &b.device)));
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for found in &mut all {
        let count = taken.entry(found.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            found.name += &format!("-{count}");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(device: &str, learnt: Learnt) -> Found {
        let learnt = BTreeMap::from([("t {x}".to_owned(), learnt)]);
        of(BTreeMap::from([(device.to_owned(), learnt)]), &[]).remove(0)
    }

    /// The state in which a server starts.
    fn start() -> Learnt {
        serde_json::from_str(r#"{"level":1,"step":1,"halving":false,"speedup":1.0}"#).unwrap()
    }

    #[test]
    fn a_cap_and_a_peak_are_taken_over() {
        let text = r#"{"level":4,"step":0,"halving":true,"speedup":2.7,"cap":60,"peak":11000000000,"ended":true,
            "tried":[{"at_once":1,"cap":100,"gives":1.0,"jobs":3,"seconds":20.0},{"at_once":4,"cap":60,"gives":2.7,"jobs":9,"seconds":80.0}]}"#;
        let kept: Learnt = serde_json::from_str(text).unwrap();
        let gpu = only("NVIDIA-H100", kept.clone());
        assert_eq!(
            (gpu.cap_percent, gpu.device_memory),
            (Some(60.0), Some(11_000_000_000))
        );
        assert_eq!(gpu.ram, None);
        let tried = "4 at once with at most 60 % each: 2.70 times the throughput of one, of 9 jobs";
        assert!(gpu.measured.iter().any(|sentence| sentence == tried));
        let mut beside = kept.clone();
        beside.tried.remove(0);
        assert_eq!(only("NVIDIA-H100", beside).speedup, None, "none ran alone");
        let cpu = only("2-processors", kept);
        assert_eq!((cpu.device_memory, cpu.ram), (None, Some(11_000_000_000)));
    }

    #[test]
    fn a_first_level_is_no_finding() {
        let start = start();
        assert_eq!(only("NVIDIA-H100", start.clone()).at_once, None);
        let stopped = Learnt {
            step: 0,
            ..start.clone()
        };
        assert_eq!(only("NVIDIA-H100", stopped).at_once, Some(1));
        // On processors the first level is their number.
        let first = Learnt { level: 2, ..start };
        assert_eq!(only("2-processors", first.clone()).at_once, None);
        let seen = Learnt {
            wants: Some(0.5),
            ..first
        };
        assert_eq!(only("2-processors", seen).at_once, Some(2));
    }

    #[test]
    fn names_are_short_and_differ() {
        assert_eq!(
            name("/usr/bin/python3 ./a/train.py --lr={}"),
            "python3-train-py-lr"
        );
        assert_eq!(name("./7.sh {}"), "job-7-sh");
        let entry = |x: &str| (format!("t {x}"), start());
        let learnt = BTreeMap::from(["{a}", "a", "[a]"].map(entry));
        let all = of(BTreeMap::from([("H100".to_owned(), learnt)]), &[]);
        let names: Vec<&str> = all.iter().map(|found| &*found.name).collect();
        assert_eq!(names, ["t-a", "t-a-2", "t-a-3"]);
    }

    #[test]
    fn what_is_unknown_is_absent() {
        let found = only("2-processors", start());
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("ram") && !text.contains("cap"), "{text}");
    }
}
