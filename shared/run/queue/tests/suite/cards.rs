//! Simulated cards whose rates are those that others recorded, with memory, start-up times, drift and strangers.
//!
//! A job of template `i` under the cap `c_i` beside jobs `j` progresses, relative to alone with the whole card, at
//!
//! ```text
//! f_i(c_i) / ((1 + sum_j s_ij f_j(c_j)) (1 + a max(0, sum of caps / 100 - 2)))
//! ```
//!
//! `f` is its recorded rate alone under a cap, `s_ij` what a recorded pair lost, and `a` what clients lose that
//! contend for the same multiprocessors: with 0.07, eight unlike trainings on an H200 do 3.2, 3.5 and 4.1 times as much
//! as one under 100, 60 and 30 % (recorded: 3.08, 3.56, 4.46); with 0.14, four on an A100 under 50 % each do 1.2 times as
//! much as under 100 % (MISO: 1.17).

use std::collections::BTreeMap;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// A template, as the cards treat it.
#[derive(Debug, Clone)]
pub struct Template {
    /// Work per second alone, on each kind of card.
    pub rates: Vec<f64>,
    /// Rate under a cap relative to none, by cap in percent, rising.
    pub capped: Vec<(f64, f64)>,
    /// Loss beside one job of each template, by kind of card.
    pub losses: Vec<Vec<f64>>,
    /// Bytes that its jobs need.
    pub memory: f64,
    /// Seconds of start-up.
    pub startup: f64,
    /// Mean seconds of work alone on the fastest kind.
    pub seconds: f64,
    /// Standard deviation of the logarithm of its jobs' sizes and rates.
    pub spread: f64,
    /// Its jobs report how much work they have in total.
    pub tells: bool,
}

impl Template {
    /// Rate under a cap, relative to none.
    pub fn capped(&self, cap: f64) -> f64 {
        let mut below = (0.0, 0.0);
        for &(at, rate) in &self.capped {
            if cap <= at {
                return below.1 + (rate - below.1) * (cap - below.0) / (at - below.0);
            }
            below = (at, rate);
        }
        below.1
    }
}

/// A job to be done.
#[derive(Debug, Clone)]
pub struct Todo {
    pub template: usize,
    /// Work, in seconds alone on the fastest kind at the template's rate.
    pub work: f64,
    /// Rate relative to its template's, in the unit that it reports.
    pub pace: f64,
    pub memory: f64,
    /// Phase of its drift.
    pub phase: f64,
}

/// A box and a sweep.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Kind and bytes of each card.
    pub cards: Vec<(usize, f64)>,
    pub templates: Vec<Template>,
    pub jobs: Vec<Todo>,
    /// `a` of the module.
    pub contention: f64,
    /// On each card, bytes that a stranger holds, and until when.
    pub strangers: Vec<(f64, f64)>,
}

/// A running job, for its speed.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub job: usize,
    pub cap: f64,
    /// It has started up, and uses the card.
    pub active: bool,
}

impl Sweep {
    /// Speed of each client of a card, in seconds of work alone on the fastest kind; without drift.
    pub fn speeds(&self, card: usize, clients: &[Client]) -> Vec<f64> {
        let kind = self.cards[card].0;
        let active = clients.iter().filter(|c| c.active);
        let caps: f64 = active.map(|c| c.cap).sum();
        let crowd = 1.0 + self.contention * (caps / 100.0 - 2.0).max(0.0);
        let of = |client: &Client| &self.templates[self.jobs[client.job].template];
        let speed = |(index, client): (usize, &Client)| {
            let own = of(client);
            let losses = clients
                .iter()
                .enumerate()
                .filter(|(at, c)| c.active && *at != index);
            let lost: f64 = losses
                .map(|(_, other)| {
                    let there = self.jobs[other.job].template;
                    own.losses[kind][there] * of(other).capped(other.cap)
                })
                .sum();
            match client.active {
                true => own.rates[kind] * own.capped(client.cap) / ((1.0 + lost) * crowd),
                false => 0.0,
            }
        };
        clients.iter().enumerate().map(speed).collect()
    }

    /// The cards, the one on which all templates together are fastest first.
    pub fn fastest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cards.len()).collect();
        let speed = |card: usize| -> f64 {
            let rates = self.templates.iter().map(|t| t.rates[self.cards[card].0]);
            rates.sum()
        };
        order.sort_by(|a, b| speed(*b).total_cmp(&speed(*a)));
        order
    }

    /// Factor by which the rate of a job drifts: some percent within minutes.
    pub fn drift(&self, job: usize, now: f64) -> f64 {
        let phase = self.jobs[job].phase;
        1.0 + 0.08 * (now / 47.0 + phase).sin() + 0.05 * (now / 13.0 + 3.0 * phase).sin()
    }

    /// Bytes of a card that strangers leave.
    pub fn room(&self, card: usize, now: f64) -> f64 {
        let (held, until) = self.strangers[card];
        self.cards[card].1 - if now < until { held } else { 0.0 }
    }
}

/// Recorded templates of one source: fields that a box needs, without memory and sizes.
pub struct Source {
    pub name: &'static str,
    pub templates: Vec<Template>,
    /// Kinds of card.
    pub kinds: usize,
    contention: f64,
}

fn template(rates: Vec<f64>, capped: Vec<(f64, f64)>, losses: Vec<Vec<f64>>) -> Template {
    Template {
        rates,
        capped,
        losses,
        memory: 0.0,
        startup: 0.0,
        seconds: 0.0,
        spread: 0.0,
        tells: false,
    }
}

/// Rates under caps, rising to 1.
fn rising(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0_f64;
    for point in &mut points {
        below = below.max(point.1 / most);
        point.1 = below;
    }
    points
}

fn rows(path: &Path) -> Option<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    Some(text.lines().skip(1).map(fields).collect())
}

/// Eight trainings on an H200, and a card of half of its size.
fn h200(folder: &Path) -> Option<Source> {
    let rows = rows(&folder.join("h200/windows.csv"))?;
    let names = [
        "rn50", "vitb", "gpt2", "bert", "mbv3", "lstm", "dlrm", "mlp",
    ];
    let number = |name: &str| names.iter().position(|n| *n == name);
    let mean = |values: Vec<f64>| match values.is_empty() {
        true => 0.0,
        false => values.iter().sum::<f64>() / values.len() as f64,
    };
    let solo = |task: usize, share: &str| {
        let of = rows
            .iter()
            .filter(|r| r[8].starts_with("solo") && r[1] == names[task]);
        mean(
            of.filter(|r| r[3] == share)
                .filter_map(|r| r[5].parse().ok())
                .collect(),
        )
    };
    let best = |task| {
        ["100", "60", "30"]
            .map(|share| solo(task, share))
            .into_iter()
            .fold(0.0, f64::max)
    };
    let mut ratios: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    let mut last: Option<(&str, usize, f64)> = None;
    for row in rows
        .iter()
        .filter(|r| r[8].starts_with("pair") && r[3] == "100")
    {
        let task = number(&row[1])?;
        let ratio = row[5].parse::<f64>().ok()? / best(task);
        if let Some((window, other, before)) = last.take().filter(|(window, ..)| *window == row[0])
        {
            let _ = window;
            ratios.entry((task, other)).or_default().push(ratio);
            ratios.entry((other, task)).or_default().push(before);
        } else {
            last = Some((&row[0], task, ratio));
        }
    }
    // Pairs lost a fifth on average, of which drift is a part: with 0.6 of it, sums of four and eight are as recorded.
    let loss = |a: usize, b: usize| match ratios.get(&(a, b)) {
        Some(all) => (0.6 * (1.0 / mean(all.clone()) - 1.0)).max(0.0),
        None => 0.15,
    };
    let templates = (0..8).map(|task| {
        let capped = [(30.0, "30"), (60.0, "60"), (100.0, "100")].map(|(c, s)| (c, solo(task, s)));
        let losses: Vec<f64> = (0..8).map(|other| loss(task, other)).collect();
        // The smaller card is as slow as the cap says, and half as soon full.
        let points = rising(capped.to_vec());
        let half = points[1].1 * 0.55;
        let fuller = losses.iter().map(|loss| 2.0 * loss + 0.05).collect();
        template(vec![1.0, half], points, vec![losses, fuller])
    });
    Some(Source {
        name: "h200",
        templates: templates.collect(),
        kinds: 2,
        contention: 0.07,
    })
}

/// The 32 trainings of MISO on an A100; how soon two lose follows from how much a small cap costs each.
fn miso(folder: &Path) -> Option<Source> {
    let rows = rows(&folder.join("miso/mps_mixes.csv"))?;
    let mut all: BTreeMap<(String, String), [Vec<f64>; 2]> = BTreeMap::new();
    for row in rows.iter().filter(|r| r[1] == "1") {
        let of = all.entry((row[2].clone(), row[3].clone())).or_default();
        of[0].push(row[4].parse().ok()?);
        of[1].push(row[5].parse().ok()?);
    }
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let curves: Vec<_> = all
        .values()
        .map(|[half, least]| rising(vec![(14.0, mean(least)), (50.0, mean(half)), (100.0, 1.0)]))
        .collect();
    let demand = |curve: &[(f64, f64)]| (1.0 - (curve[0].1 - 0.14) / 0.86).clamp(0.0, 1.0);
    let templates = curves.iter().map(|curve| {
        let losses = |factor: f64| {
            let loss = |other: &Vec<(f64, f64)>| factor * demand(curve) * demand(other) + 0.03;
            curves.iter().map(loss).collect::<Vec<f64>>()
        };
        template(
            vec![1.0, 0.6 * curve[1].1],
            curve.clone(),
            vec![losses(0.4), losses(0.8)],
        )
    });
    Some(Source {
        name: "miso",
        templates: templates.collect(),
        kinds: 2,
        contention: 0.14,
    })
}

/// Trainings and pairs of Gavel on three cards. Nobody recorded caps there: a cap costs what it takes from a job that
/// loses much beside others.
fn gavel(folder: &Path) -> Option<Source> {
    let text = std::fs::read(folder.join("gavel/simulation_throughputs.json")).ok()?;
    let all: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let kinds = ["v100", "p100", "k80"];
    let names: Vec<&String> = all[kinds[0]]
        .as_object()?
        .keys()
        .filter(|k| k.ends_with(", 1)"))
        .collect();
    let solo = |kind: &str, name: &str| all[kind][name]["null"].as_f64().filter(|rate| *rate > 0.0);
    let names: Vec<&String> = names
        .into_iter()
        .filter(|name| kinds.iter().all(|kind| solo(kind, name).is_some()))
        .collect();
    let loss = |kind: &str, a: &str, b: &str| {
        let rate = all[kind][a][b][0].as_f64().filter(|rate| *rate > 0.0);
        rate.zip(solo(kind, a))
            .map_or(1.0, |(rate, alone)| (alone / rate - 1.0).max(0.0))
    };
    let templates = names.iter().filter_map(|name| {
        let alone = kinds
            .iter()
            .map(|kind| solo(kind, name))
            .collect::<Option<Vec<f64>>>()?;
        let fastest = alone.iter().copied().fold(0.0, f64::max);
        let rates = alone.iter().map(|rate| rate / fastest).collect();
        let losses: Vec<Vec<f64>> = kinds
            .iter()
            .map(|kind| names.iter().map(|other| loss(kind, name, other)).collect())
            .collect();
        let fills = losses[0].iter().sum::<f64>() / names.len() as f64;
        let knee = (100.0 * fills / (fills + 0.5)).clamp(15.0, 99.0);
        Some(template(rates, vec![(knee, 1.0), (100.0, 1.0)], losses))
    });
    Some(Source {
        name: "gavel",
        templates: templates.collect(),
        kinds: 3,
        contention: 0.10,
    })
}

/// Everything that is recorded in a folder; empty if it is absent.
pub fn sources(folder: &Path) -> Vec<Source> {
    [h200(folder), miso(folder), gavel(folder)]
        .into_iter()
        .flatten()
        .collect()
}

/// A random box and sweep of a source.
pub fn draw(source: &Source, seed: u64) -> Sweep {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let gaussian = |rng: &mut SmallRng| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    let count = rng.random_range(1..=3);
    let chosen: Vec<usize> = (0..count)
        .map(|_| rng.random_range(0..source.templates.len()))
        .collect();
    let mut templates: Vec<Template> = chosen
        .iter()
        .map(|&at| {
            let of = &source.templates[at];
            let pick = |all: &Vec<f64>| chosen.iter().map(|&other| all[other]).collect();
            Template {
                losses: of.losses.iter().map(pick).collect(),
                memory: 10f64.powf(rng.random_range(0.0..1.2)) * 1e9,
                startup: rng.random_range(4.0..25.0),
                seconds: 10f64.powf(rng.random_range(1.7..2.8)),
                spread: [0.0, 0.05, 0.3][rng.random_range(0..3)],
                ..of.clone()
            }
        })
        .collect();
    let cards: Vec<(usize, f64)> = (0..rng.random_range(1..=4))
        .map(|_| {
            let kind = rng.random_range(0..source.kinds);
            (kind, if kind == 0 { 80e9 } else { 24e9 })
        })
        .collect();
    let strangers = cards
        .iter()
        .map(|(_, bytes)| match rng.random_bool(0.2) {
            true => (
                bytes * rng.random_range(0.2..0.6),
                rng.random_range(50.0..2000.0),
            ),
            false => (0.0, 0.0),
        })
        .collect();
    let number = 10f64.powf(rng.random_range(1.301..2.301)) as usize;
    let mixed = rng.random_bool(0.5);
    let jobs = (0..number)
        .map(|index| {
            let at = if mixed {
                index % count
            } else {
                index * count / number
            };
            let template = &templates[at];
            let size = (template.spread * gaussian(rng)).exp();
            Todo {
                template: at,
                work: template.seconds * (template.spread * gaussian(rng)).exp(),
                pace: size,
                memory: template.memory * (1.0 + 0.05 * rng.random::<f64>()),
                phase: rng.random_range(0.0..100.0),
            }
        })
        .collect();
    for template in &mut templates {
        template.tells = rng.random_bool(0.5);
    }
    Sweep {
        cards,
        templates,
        jobs,
        contention: source.contention * rng.random_range(0.7..1.3),
        strangers,
    }
}

/// 200 jobs of three templates on a card of 24 GB and one of 80 GB, of which a stranger holds half at first.
pub fn beside_a_stranger(source: &Source, seed: u64) -> Sweep {
    let mut draws = (0..).map(|n| draw(source, seed + 1000 * n));
    let drawn = draws.find(|sweep| sweep.templates.len() == 3);
    let mut sweep = drawn.expect("a third of the draws have three templates");
    let job = |at: usize| {
        let mut of = sweep.jobs.iter().filter(|job| job.template == at % 3);
        let count = of.clone().count();
        let phase = (at as f64 * 7.3) % 100.0;
        of.nth(at / 3 % count).map(|job| Todo {
            phase,
            ..job.clone()
        })
    };
    sweep.jobs = (0..200).filter_map(job).collect();
    sweep.cards = vec![(1, 24e9), (0, 80e9)];
    sweep.strangers = vec![(0.0, 0.0), (40e9, 1500.0)];
    sweep
}
