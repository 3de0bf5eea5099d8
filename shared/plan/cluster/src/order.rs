//! Orders the pending jobs of a Slurm queue.

use std::collections::HashSet;
use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Slurm accepts values of `nice` up to this one, positive or negative (`scontrol(1)`).
const MOST_NICE: i64 = 2_147_483_645;

/// The output of `squeue --json`. Keeps a [`Pending`] of each job instead of its hundred fields: a
/// queue of 77 MB took 1.1 GB when everything was kept.
#[derive(serde::Deserialize)]
#[serde(expecting = "an object with the field `jobs`")]
struct SqueueOutput {
    jobs: Option<Queue>,
}

/// The pending jobs, or the error of the first job that is not in Slurm's format.
struct Queue(Result<Vec<Pending>, OrderError>);

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Jobs;
        impl<'de> Visitor<'de> for Jobs {
            type Value = Queue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of jobs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Queue, A::Error> {
                let mut pending = Ok(Vec::new());
                let mut index = 0;
                while let Some(job) = all.next_element::<SlurmJob>()? {
                    if let Ok(jobs) = &mut pending {
                        match of(index, &job) {
                            Ok(job) => jobs.extend(job),
                            Err(error) => pending = Err(error),
                        }
                    }
                    index += 1;
                }
                Ok(Queue(pending))
            }
        }
        from.deserialize_seq(Jobs)
    }
}

/// The fields of a job that are used; all absent if it is not an object.
#[derive(Default)]
struct SlurmJob {
    job_id: Option<Value>,
    job_state: Option<Value>,
    priority: Option<Value>,
    nice: Option<Value>,
    time_limit: Option<Value>,
    tres_req_str: Option<Value>,
    comment: Option<Value>,
}

impl SlurmJob {
    fn field(&mut self, name: &str) -> Option<&mut Option<Value>> {
        Some(match name {
            "job_id" => &mut self.job_id,
            "job_state" => &mut self.job_state,
            "priority" => &mut self.priority,
            "nice" => &mut self.nice,
            "time_limit" => &mut self.time_limit,
            "tres_req_str" => &mut self.tres_req_str,
            "comment" => &mut self.comment,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for SlurmJob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = SlurmJob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SlurmJob, A::Error> {
                let mut job = SlurmJob::default();
                while let Some(name) = map.next_key::<String>()? {
                    match job.field(&name) {
                        Some(field) => *field = Some(map.next_value()?),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(job)
            }
        }
        from.deserialize_map(Fields)
    }
}

/// Why an output of `squeue --json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// It is not JSON.
    #[error("{0}; give what `squeue --json` writes")]
    Json(#[from] serde_json::Error),
    /// It has no list of jobs.
    #[error("$.jobs: there is no list of jobs; give what `squeue --json` writes")]
    NoJobs,
    /// A field that Slurm always gives is missing or invalid.
    #[error("$.jobs[{index}].{field}: {found} is not {wanted}")]
    Field {
        /// Which job, from 0.
        index: usize,
        /// The field.
        field: &'static str,
        /// The value found.
        found: String,
        /// The valid form.
        wanted: &'static str,
    },
}

/// A pending job with its present and its new `nice`.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Its number in Slurm.
    pub id: u64,
    /// Its `nice` now.
    pub before: i64,
    /// The `nice` that puts it into order.
    pub nice: i64,
}

/// The pending jobs of a queue, the first to start first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Order {
    /// The jobs.
    pub jobs: Vec<Placed>,
    /// Why Slurm may not follow the order.
    pub warnings: Vec<String>,
}

impl Order {
    /// `scontrol` lines for the jobs whose `nice` changes.
    #[must_use]
    pub fn lines(&self) -> String {
        let changed = self.jobs.iter().filter(|j| j.nice != j.before);
        changed
            .map(|j| format!("scontrol update jobid={} nice={}\n", j.id, j.nice))
            .collect()
    }
}

struct Pending {
    id: u64,
    /// Priority as it would be with `nice` 0.
    base: i64,
    nice: i64,
    /// Weight over expected GPU time: Smith's ratio on the whole cluster.
    ratio: f64,
}

/// Orders the pending jobs of a queue by weight over (time limit times GPUs), Smith's rule, which
/// minimises the weighted sum of completion times if one job at a time has the cluster. A weight is
/// `weight=N` in the job's comment, 1 without. A job without a time limit comes last.
///
/// Slurm subtracts `nice` from a priority. The priority of the k-th job becomes `m - k`, where m is
/// the least priority that any of them has without `nice`. So no `nice` is negative, which only an
/// operator may set, and ordering the same queue twice gives the same values.
///
/// # Errors
/// [`OrderError`] names the first place that is not in the format of `squeue --json`.
pub fn order(squeue: impl Read) -> Result<Order, OrderError> {
    let answer: SqueueOutput = serde_json::from_reader(BufReader::new(squeue))?;
    let mut pending = answer.jobs.ok_or(OrderError::NoJobs)?.0?;
    let mut warnings = Vec::new();
    let all = pending.len();
    let mut seen = HashSet::new();
    pending.retain(|job| seen.insert(job.id));
    if pending.len() < all {
        // `squeue -r` has a line for every waiting task of an array, all with the same number.
        warnings.push(format!(
            "lines that repeat the number of a job before them: {}; the first of each counts",
            all - pending.len()
        ));
    }
    pending.sort_by(|a: &Pending, b| b.ratio.total_cmp(&a.ratio).then(a.id.cmp(&b.id)));
    let least = pending.iter().map(|j| j.base).min().unwrap_or(0);
    // Priority 0 holds a job in Slurm, so Slurm raises priorities that `nice` takes below 1 to 1.
    if pending.len() > 1 && least < pending.len() as i64 {
        warnings.push(format!(
            "the least priority is {least}, and {} jobs need as many different ones below it: Slurm \
             will start those at priority 1 by their numbers; set PriorityWeightPartition=1000000 in \
             slurm.conf",
            pending.len()
        ));
    }
    let placed = pending.iter().zip(0..).map(|(job, k)| Placed {
        id: job.id,
        before: job.nice,
        nice: job.base - least + k,
    });
    let mut jobs: Vec<Placed> = placed.collect();
    let beyond = jobs.iter().filter(|job| job.nice > MOST_NICE).count();
    if beyond > 0 {
        warnings.push(format!(
            "priorities differ by more than Slurm's largest nice ({MOST_NICE}): {beyond} jobs get that value, and Slurm orders them by the rest"
        ));
        for job in &mut jobs {
            job.nice = job.nice.min(MOST_NICE);
        }
    }
    Ok(Order { jobs, warnings })
}

/// A job, if it is pending and not held.
fn of(index: usize, job: &SlurmJob) -> Result<Option<Pending>, OrderError> {
    let whole = |field: &'static str,
                 found: &Option<Value>,
                 range: std::ops::RangeInclusive<i64>,
                 wanted: &'static str| {
        let whole = |v: &f64| v.abs() < 9e15 && v.fract() == 0.0;
        let value = found
            .as_ref()
            .and_then(number)
            .filter(whole)
            .map(|v| v as i64)
            .filter(|v| range.contains(v));
        value.ok_or_else(|| OrderError::Field {
            index,
            field,
            found: found
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), ToString::to_string),
            wanted,
        })
    };
    // A list of states since Slurm 23.11, a single word before.
    let pending = match &job.job_state {
        Some(Value::Array(states)) => states.iter().any(|s| s == "PENDING"),
        Some(Value::String(state)) => state == "PENDING",
        other => {
            return Err(OrderError::Field {
                index,
                field: "job_state",
                found: other
                    .as_ref()
                    .map_or_else(|| "nothing".to_owned(), ToString::to_string),
                wanted: "a state, or a list of them",
            });
        }
    };
    if !pending {
        return Ok(None);
    }
    let most = i64::from(u32::MAX);
    let numbers = "a whole number from 1 to 4294967295";
    let id = whole("job_id", &job.job_id, 1..=most, numbers)?.unsigned_abs();
    let numbers = "a whole number from 0 to 4294967295";
    let priority = whole("priority", &job.priority, 0..=most, numbers)?;
    // A held job has priority 0; another value would release it.
    if priority == 0 {
        return Ok(None);
    }
    // Slurm 22.05 writes null for a job whose `nice` was never set.
    let nice = match &job.nice {
        None | Some(Value::Null) => 0,
        nice => {
            let numbers = "a whole number from -2147483645 to 2147483645";
            whole("nice", nice, -MOST_NICE..=MOST_NICE, numbers)?
        }
    };
    let minutes = job
        .time_limit
        .as_ref()
        .and_then(number)
        .filter(|m| *m > 0.0);
    let ratio = minutes.map_or(0.0, |m| weight(job) / (m * gpus(job)));
    Ok(Some(Pending {
        id,
        base: priority + nice,
        nice,
        ratio,
    }))
}

/// A number of Slurm's JSON: plain until 22.05, then `{"set", "infinite", "number"}`.
fn number(value: &Value) -> Option<f64> {
    let Value::Object(fields) = value else {
        return value.as_f64();
    };
    let is = |name: &str| fields.get(name).and_then(Value::as_bool);
    let given = is("set") != Some(false) && is("infinite") != Some(true);
    fields
        .get("number")
        .and_then(Value::as_f64)
        .filter(|_| given)
}

/// GPUs in `tres_req_str`, such as `cpu=8,mem=64G,gres/gpu=2`; a job without any counts as one.
fn gpus(job: &SlurmJob) -> f64 {
    let text = job.tres_req_str.as_ref().and_then(Value::as_str);
    let total = text
        .into_iter()
        .flat_map(|t| t.split(','))
        .filter_map(|t| t.strip_prefix("gres/gpu=")?.parse::<u32>().ok());
    total.map(f64::from).sum::<f64>().max(1.0)
}

/// `weight=N` in the comment.
fn weight(job: &SlurmJob) -> f64 {
    let comment = job.comment.as_ref().and_then(Value::as_str).unwrap_or("");
    let words = comment.split([' ', ',', ';']);
    let mut given = words.filter_map(|w| w.strip_prefix("weight=")?.parse::<f64>().ok());
    given.find(|w| w.is_finite() && *w > 0.0).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_no_job_is_refused() {
        let refused = |job: &str| {
            let text = format!("{{\"jobs\":[{job}]}}");
            order(text.as_bytes()).unwrap_err().to_string()
        };
        for (job, told) in [
            ("1", "invalid type: integer `1`, expected a job"),
            ("{}", "$.jobs[0].job_state: nothing"),
            (
                r#"{"job_state":"PENDING","job_id":-7}"#,
                "$.jobs[0].job_id: -7 is not a whole number from 1",
            ),
            (
                r#"{"job_state":"PENDING","job_id":7,"priority":9,"nice":2147483646}"#,
                "$.jobs[0].nice: 2147483646 is not a whole number from -2147483645",
            ),
            (r#"{"job_state":7}"#, "$.jobs[0].job_state: 7"),
            (
                r#"{"job_state":"PENDING","job_id":1.5}"#,
                "$.jobs[0].job_id: 1.5 is not a whole number",
            ),
            (
                r#"{"job_state":["PENDING"],"job_id":"1; reboot"}"#,
                "$.jobs[0].job_id: \"1; reboot\"",
            ),
        ] {
            let error = refused(job);
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn a_number_counts_once_and_nice_stays_in_the_range_of_slurm() {
        let job = |id: u32, priority: u32| {
            format!(r#"{{"job_state":"PENDING","job_id":{id},"priority":{priority},"x":[{{}}]}}"#)
        };
        let jobs = [job(7, 4_294_967_295), job(7, 5), job(8, 100)];
        let found = order(format!("{{\"jobs\":[{}]}}", jobs.join(",")).as_bytes()).unwrap();
        assert_eq!(found.lines().lines().count(), 2);
        assert!(found.lines().contains("jobid=7 nice=2147483645\n"));
        assert!(
            found.warnings[0].starts_with("lines that repeat the number of a job before them: 1;"),
            "{:?}",
            found.warnings
        );
        assert!(found.warnings.iter().any(|w| w.contains("largest nice")));
    }

    /// Any answer is ordered or refused, and what is ordered is a queue that Slurm would take.
    #[test]
    fn fuzz_queues() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cases = here.join("../../../tools/mt-cluster/tests/cli/in");
        let own = here.join("tests/fuzz/queues");
        testkit::fuzz::fuzz("queues", &[&own, &cases], |text| match order(text) {
            Ok(order) => {
                assert!(order.jobs.iter().all(|j| j.nice >= 0), "{order:?}");
                for line in order.lines().lines() {
                    let words: Vec<&str> = line.split(' ').collect();
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '=';
                    assert!(words[..2] == ["scontrol", "update"], "{line}");
                    assert!(words[2..].iter().all(|w| w.chars().all(plain)), "{line}");
                }
                format!("{} {}", order.jobs.len().min(3), order.warnings.len())
            }
            Err(error) => error.to_string().chars().take(30).collect(),
        });
    }
}
