//! How many at once, where and under which cap: thousands of sweeps on simulated boxes, compared with the best fixed
//! choice in hindsight.

use std::collections::BTreeMap;
use std::path::Path;

use math::in_parallel;
use queue::book::{Book, Demand, Id, JobEnd, Placed, Record};
use queue::devices::{Device, Sight, Spot, Stranger};
use queue::learnt::Learnt;
use queue::policy::{Decision, Gone, Limits, Policy};
use serde_json::{Value, json};

use crate::cards::{Client, Source, Sweep, beside_a_stranger, draw, sources};
use crate::made::{group, job};

/// Seconds of a step; jobs report progress once in each.
const STEP: f64 = 1.0;
/// Fraction of its memory that a job has when it begins; the rest follows within [`GROWS`] seconds.
const EARLY: f64 = 0.6;
/// As in [`EARLY`].
const GROWS: f64 = 8.0;

/// A running job of either player.
#[derive(Debug, Clone, Copy)]
struct Run {
    card: usize,
    cap: f64,
    age: f64,
    done: f64,
    /// Work that it would have done alone with the whole card in the same seconds.
    alone: f64,
}

/// What a policy achieved.
#[derive(Debug, Default)]
struct Played {
    makespan: f64,
    shortages: usize,
    /// By how much each job with a promise was slower than alone.
    slower: Vec<f64>,
    /// What was learnt, by kind of card.
    learnt: Store,
}

/// What is known of templates, by kind of card.
type Store = BTreeMap<String, BTreeMap<String, Learnt>>;

/// Percent that are promised to every second job, where some are.
const PROMISED: u32 = 15;

fn is_promised(job: usize) -> bool {
    job.is_multiple_of(2)
}

fn book_of(sweep: &Sweep, promises: bool) -> Book {
    let mut book = Book::default();
    for (at, todo) in sweep.jobs.iter().enumerate() {
        let id = book.next_ids(1)[0];
        let demand = Demand {
            at_most_slower: (promises && is_promised(at)).then_some(PROMISED),
            ..Demand::default()
        };
        let group = group(&id.to_string(), demand);
        let (jobs, at_s) = (vec![job(id, &format!("t{}", todo.template))], 0.0);
        book.apply(&Record::Added { group, jobs, at_s })
            .expect("it contradicts nothing");
    }
    book
}

/// The box under the policy.
struct Play<'a> {
    sweep: &'a Sweep,
    book: Book,
    policy: Policy,
    runs: BTreeMap<Id, Run>,
    now: f64,
    played: Played,
}

impl Play<'_> {
    fn job(id: Id) -> usize {
        id.0 as usize - 1
    }

    fn used(&self, id: Id, run: &Run) -> f64 {
        let job = &self.sweep.jobs[Self::job(id)];
        let begun = run.age - self.sweep.templates[job.template].startup;
        match begun < 0.0 {
            true => 0.0,
            false => job.memory * (EARLY + (1.0 - EARLY) * (begun / GROWS).min(1.0)),
        }
    }

    /// Ends of jobs in a step: done, or out of memory.
    fn advance(&mut self) -> Vec<(Id, bool)> {
        let mut ends = Vec::new();
        for card in 0..self.sweep.cards.len() {
            let here: Vec<(Id, Run)> = (self.runs.iter())
                .filter(|(_, run)| run.card == card)
                .map(|(id, run)| (*id, *run))
                .collect();
            let of = |id: &Id| self.sweep.jobs[Self::job(*id)].template;
            let clients: Vec<Client> = here
                .iter()
                .map(|(id, run)| Client {
                    job: Self::job(*id),
                    cap: run.cap,
                    active: run.age >= self.sweep.templates[of(id)].startup,
                })
                .collect();
            let speeds = self.sweep.speeds(card, &clients);
            for (((id, _), client), speed) in here.iter().zip(&clients).zip(speeds) {
                let Some(run) = self.runs.get_mut(id) else {
                    continue;
                };
                run.age += STEP;
                if !client.active {
                    continue;
                }
                let drift = self.sweep.drift(client.job, self.now);
                run.done += speed * drift * STEP;
                let todo = &self.sweep.jobs[client.job];
                let kind = self.sweep.cards[card].0;
                run.alone += self.sweep.templates[todo.template].rates[kind] * drift * STEP;
                if run.done >= todo.work {
                    if is_promised(client.job) {
                        self.played.slower.push(run.alone / run.done - 1.0);
                    }
                    ends.push((*id, false));
                } else {
                    let rate = todo.pace * 10.0;
                    let tells = self.sweep.templates[todo.template].tells;
                    let of = tells.then_some(todo.work * rate);
                    self.policy.progress(*id, self.now, run.done * rate, of);
                }
            }
            let used: f64 = here
                .iter()
                .map(|(id, _)| self.used(*id, &self.runs[id]))
                .sum();
            if used > self.sweep.room(card, self.now) {
                // The one that allocates last fails.
                let last = here
                    .iter()
                    .filter(|(id, _)| self.used(*id, &self.runs[id]) > 0.0);
                let last = last.min_by(|a, b| a.1.age.total_cmp(&b.1.age));
                ends.extend(last.map(|(id, _)| (*id, true)));
            }
        }
        ends
    }

    fn note(&mut self, record: Record) {
        self.book
            .apply(&record)
            .expect("no record contradicts the book");
    }

    fn look(&mut self) {
        for card in 0..self.sweep.cards.len() {
            let here = self.runs.iter().filter(|(_, run)| run.card == card);
            let used: BTreeMap<Id, u64> = here
                .map(|(id, run)| (*id, self.used(*id, run) as u64))
                .collect();
            let room = self.sweep.room(card, self.now);
            let held = self.sweep.cards[card].1 - room;
            let stranger = Stranger {
                pid: 1,
                name: "python".to_owned(),
                bytes: held as u64,
            };
            let sight = Sight {
                free: (room as u64).saturating_sub(used.values().sum()),
                strangers: if held > 0.0 {
                    vec![stranger]
                } else {
                    Vec::new()
                },
                used,
                lost: None,
            };
            self.policy.sees(card, sight, self.now);
        }
    }

    fn step(&mut self) {
        for (id, short) in self.advance() {
            let Some(run) = self.runs.remove(&id) else {
                continue;
            };
            let entry = self.book.entries[&id].clone();
            let outcome = match short {
                true => JobEnd::Failed(1),
                false => JobEnd::Done,
            };
            self.played.shortages += usize::from(short);
            let gone = Gone {
                out_of_memory: short,
                peak: Some(self.used(id, &run) as u64),
                ..Gone::from(outcome)
            };
            let record = self.policy.exited(&self.book, &entry, gone, self.now);
            self.note(record);
        }
        self.look();
        for decision in self.policy.decide(&self.book, self.now) {
            let Decision::Start(id, spot) = decision else {
                panic!("{decision:?}");
            };
            self.start(id, &spot);
        }
        self.now += STEP;
    }

    fn start(&mut self, id: Id, spot: &Spot) {
        let devices: Vec<Device> = self.policy.devices().cloned().collect();
        let placed = Some(Placed::of(spot, &devices));
        let at_s = self.now;
        self.note(Record::Started { id, at_s, placed });
        let run = Run {
            card: spot.devices[0],
            cap: spot.share.percent(),
            age: 0.0,
            done: 0.0,
            alone: 0.0,
        };
        self.runs.insert(id, run);
        let entry = self.book.entries[&id].clone();
        self.policy.started(&entry, spot, at_s);
    }
}

/// The sweep under the policy, which knows what is given, with or without promises to every second job.
fn play(sweep: &Sweep, promises: bool, known: &Store) -> Played {
    let device = |(at, (kind, bytes)): (usize, &(usize, f64))| Device {
        id: format!("GPU-{at}"),
        kind: format!("kind {kind}"),
        total: *bytes as u64,
        clients: 48,
        cores: None,
    };
    let devices = sweep.cards.iter().enumerate().map(device).collect();
    let limits = Limits {
        most: usize::MAX,
        memory: None,
    };
    let mut play = Play {
        sweep,
        book: book_of(sweep, promises),
        policy: Policy::new(devices, limits, known),
        runs: BTreeMap::new(),
        now: 0.0,
        played: Played::default(),
    };
    while play.book.is_busy() {
        play.step();
        assert!(
            play.now < 1e6,
            "{:?}",
            play.policy.learnt().collect::<Vec<_>>()
        );
    }
    play.played.makespan = play.now;
    let learnt = play.policy.learnt();
    play.played.learnt = learnt.map(|(k, l)| (k.clone(), l.clone())).collect();
    play.played
}

/// A choice that is made before and kept: jobs at once and cap of each card; cards with 0 are not used.
type Fixed = Vec<(usize, f64)>;

/// Makespan of a fixed choice. It knows what each job needs, and starts it where it fits, on the fastest card first.
fn fixed(sweep: &Sweep, choice: &Fixed) -> f64 {
    let order = sweep.fastest_first();
    let mut runs: Vec<(usize, Run)> = Vec::new();
    let (mut next, mut now) = (0, 0.0);
    while next < sweep.jobs.len() || !runs.is_empty() {
        'starts: while next < sweep.jobs.len() {
            for &card in &order {
                let here = runs.iter().filter(|(_, run)| run.card == card);
                let (count, used) = here.fold((0, 0.0), |(count, used), (job, _)| {
                    (count + 1, used + sweep.jobs[*job].memory)
                });
                let fits = used + sweep.jobs[next].memory <= sweep.room(card, now);
                if count < choice[card].0 && fits {
                    let cap = choice[card].1;
                    runs.push((
                        next,
                        Run {
                            card,
                            cap,
                            age: 0.0,
                            done: 0.0,
                            alone: 0.0,
                        },
                    ));
                    next += 1;
                    continue 'starts;
                }
            }
            break;
        }
        if runs.is_empty() {
            // Only when a stranger leaves, a job fits.
            now += 10.0;
            if now > 1e6 {
                return f64::INFINITY;
            }
            continue;
        }
        now += event(sweep, &mut runs, now);
    }
    now
}

/// Goes on to the next start of work or end of a job; returns the seconds.
fn event(sweep: &Sweep, runs: &mut Vec<(usize, Run)>, now: f64) -> f64 {
    let mut speeds = vec![0.0; runs.len()];
    for card in 0..sweep.cards.len() {
        let here: Vec<usize> = (0..runs.len())
            .filter(|at| runs[*at].1.card == card)
            .collect();
        let clients: Vec<Client> = here
            .iter()
            .map(|&at| {
                let (job, run) = runs[at];
                let startup = sweep.templates[sweep.jobs[job].template].startup;
                Client {
                    job,
                    cap: run.cap,
                    active: run.age >= startup,
                }
            })
            .collect();
        for (&at, speed) in here.iter().zip(sweep.speeds(card, &clients)) {
            speeds[at] = speed * sweep.drift(runs[at].0, now);
        }
    }
    // Drift changes within some seconds.
    let mut step: f64 = 5.0;
    for ((job, run), speed) in runs.iter().zip(&speeds) {
        let todo = &sweep.jobs[*job];
        let startup = sweep.templates[todo.template].startup;
        step = step.min(match run.age < startup {
            true => startup - run.age,
            false => (todo.work - run.done) / speed,
        });
    }
    let step = step.max(1e-6);
    for ((_, run), speed) in runs.iter_mut().zip(&speeds) {
        run.age += step;
        run.done += speed * step;
    }
    runs.retain(|(job, run)| run.done < sweep.jobs[*job].work - 1e-9);
    step
}

const NUMBERS: [usize; 9] = [1, 2, 3, 4, 5, 6, 8, 11, 16];
const CAPS: [f64; 6] = [100.0, 70.0, 50.0, 35.0, 25.0, 15.0];

/// Makespans of the rivals.
#[derive(Debug)]
struct Rivals {
    /// The best number and cap of all cards, on all cards or the best of each number of fastest cards, then of each card.
    hindsight: f64,
    /// The same with 100 % each.
    uncapped: f64,
    /// Number at once of that.
    number: usize,
    /// The best on one card.
    one: f64,
    /// `1/n` each with the best number.
    shares: f64,
}

fn rivals(sweep: &Sweep) -> Rivals {
    let cards = sweep.cards.len();
    let order = sweep.fastest_first();
    let choice = |used: usize, number: usize, cap: f64| -> Fixed {
        let mut all = vec![(0, cap); cards];
        for &card in &order[..used] {
            all[card].0 = number;
        }
        all
    };
    let search = |caps: &dyn Fn(usize) -> Vec<f64>, most_cards: std::ops::RangeInclusive<usize>| {
        let mut best = (f64::INFINITY, choice(1, 1, 100.0));
        for used in most_cards {
            for number in NUMBERS {
                for cap in caps(number) {
                    let all = choice(used, number, cap);
                    let seconds = fixed(sweep, &all);
                    if seconds < best.0 {
                        best = (seconds, all);
                    }
                }
            }
        }
        // Then each kind of card for itself.
        for kind in 0..3 {
            for number in std::iter::once(0).chain(NUMBERS) {
                for cap in caps(number.max(1)) {
                    let mut all = best.1.clone();
                    for (card, one) in all.iter_mut().enumerate() {
                        if sweep.cards[card].0 == kind && best.1[card].0 > 0 {
                            *one = (number, cap);
                        }
                    }
                    if all.iter().all(|one| one.0 == 0) || all == best.1 {
                        continue;
                    }
                    let seconds = fixed(sweep, &all);
                    if seconds < best.0 {
                        best = (seconds, all);
                    }
                }
            }
        }
        best
    };
    let (hindsight, _) = search(&|_| CAPS.to_vec(), 1..=cards);
    let (uncapped, chosen) = search(&|_| vec![100.0], 1..=cards);
    let (one, _) = search(&|_| CAPS.to_vec(), 1..=1);
    let (shares, _) = search(&|number| vec![100.0 / number as f64], 1..=cards);
    let number = chosen.iter().map(|one| one.0).max().unwrap_or(1);
    Rivals {
        hindsight,
        uncapped,
        number,
        one,
        shares,
    }
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// Median, 95th percentile and largest.
fn quantiles(mut values: Vec<f64>) -> Value {
    let [median, late, most] = [0.5, 0.95, 1.0].map(|part| {
        let value = quantile(&mut values, part);
        (value * 1000.0).round() / 1000.0
    });
    json!({ "median": median, "95_percent": late, "largest": most })
}

/// So many sweeps of 200 jobs beside a stranger, on the sources that have two kinds of card.
fn strangers(sources: &[Source], from: u64, count: u64) -> Value {
    let seeds: Vec<u64> = (0..count).collect();
    let all = in_parallel(&seeds, |n| {
        let sweep = beside_a_stranger(&sources[*n as usize % 2], from + 2 * n);
        let played = play(&sweep, false, &Store::new());
        let again = play(&sweep, false, &played.learnt);
        (rivals(&sweep), played, again)
    });
    let over =
        |of: &dyn Fn(&(Rivals, Played, Played)) -> f64| quantiles(all.iter().map(of).collect());
    let shortages: usize = all.iter().map(|(_, played, _)| played.shortages).sum();
    json!({
        "sweeps": count,
        "over_hindsight": over(&|(best, played, _)| played.makespan / best.hindsight),
        "known_over_hindsight": over(&|(best, _, again)| again.makespan / best.hindsight),
        "over_100_percent_each": over(&|(best, played, _)| played.makespan / best.uncapped),
        "shortages": shortages,
    })
}

/// What the policy achieved on a sweep, at first, with what that learnt, and with promises; and its rivals.
struct Judged {
    sweep: Sweep,
    best: Rivals,
    first: Played,
    again: Played,
    promised: Played,
}

#[expect(
    clippy::print_stdout,
    reason = "a long measurement that shows where it is"
)]
fn judge(sources: &[Source], seed: u64) -> Judged {
    let source = &sources[(seed / 2) as usize % sources.len()];
    let sweep = draw(source, seed);
    let (best, nothing) = (rivals(&sweep), Store::new());
    let first = play(&sweep, false, &nothing);
    let again = play(&sweep, false, &first.learnt);
    println!(
        "{seed} {}: {} jobs, {} templates, cards {:?}: {:.3} of hindsight, known {:.3}, {:.3} of 100 % each ({} at once), {} short",
        source.name,
        sweep.jobs.len(),
        sweep.templates.len(),
        sweep.cards.iter().map(|card| card.0).collect::<Vec<_>>(),
        first.makespan / best.hindsight,
        again.makespan / best.hindsight,
        first.makespan / best.uncapped,
        best.number,
        first.shortages,
    );
    Judged {
        promised: play(&sweep, true, &nothing),
        sweep,
        best,
        first,
        again,
    }
}

/// Constants were chosen on even seeds; these are odd. `MT_SIZING_SWEEPS=1000` for many, `MT_SIZING_FROM=N` for others,
/// `MT_SIZING_SUMMARY=FILE` for their figures in a file.
#[test]
fn sweeps_take_hardly_longer_than_with_the_best_fixed_choice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data");
    let sources = sources(&folder);
    if sources.is_empty() {
        println!("skipped: {} is absent", folder.display());
        return;
    }
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let sweeps = number("MT_SIZING_SWEEPS").unwrap_or(9);
    let from = number("MT_SIZING_FROM").unwrap_or(1);
    let seeds: Vec<u64> = (0..sweeps).map(|n| from + 2 * n).collect();
    let all = in_parallel(&seeds, |seed| judge(&sources, *seed));
    let over = |of: &dyn Fn(&Judged) -> f64| all.iter().map(of).collect::<Vec<f64>>();
    let slower = |of: &dyn Fn(&Judged) -> &Played| -> Vec<f64> {
        all.iter()
            .flat_map(|judged| of(judged).slower.clone())
            .collect()
    };
    let kept = |slower: &[f64]| {
        let limit = f64::from(PROMISED) / 100.0;
        slower.iter().filter(|by| **by <= limit).count() as f64 / slower.len() as f64
    };
    let crowded: Vec<f64> = all
        .iter()
        .filter(|judged| judged.best.number >= 5)
        .map(|judged| judged.first.makespan / judged.best.uncapped)
        .collect();
    let promised = slower(&|judged| &judged.promised);
    let sum = |of: &dyn Fn(&Judged) -> usize| all.iter().map(of).sum::<usize>();
    let mut ratios = over(&|judged| judged.first.makespan / judged.best.hindsight);
    let median = quantile(&mut ratios, 0.5);
    let summary = json!({
        "command": format!("make sizing SWEEPS={sweeps} FROM={from}"),
        "sweeps": sweeps,
        "jobs": sum(&|judged| judged.sweep.jobs.len()),
        "templates": sum(&|judged| judged.sweep.templates.len()),
        "over_hindsight": quantiles(ratios),
        "known_over_hindsight": quantiles(over(&|judged| judged.again.makespan / judged.best.hindsight)),
        "from_five_at_once": crowded.len(),
        "over_100_percent_each_from_five_at_once": quantiles(crowded),
        "over_one_card": quantiles(over(&|judged| judged.first.makespan / judged.best.one)),
        "over_1_of_n_each": quantiles(over(&|judged| judged.first.makespan / judged.best.shares)),
        "shortages": sum(&|judged| judged.first.shortages),
        "beside_a_stranger": strangers(&sources, from, sweeps / 16),
        "promises": {
            "percent": PROMISED,
            "jobs": promised.len(),
            "kept": kept(&promised),
            "kept_by_the_same_jobs_without": kept(&slower(&|judged| &judged.first)),
            "over_without": quantiles(over(&|judged| judged.promised.makespan / judged.first.makespan)),
        },
    });
    let text = format!("{summary:#}\n");
    print!("{text}");
    if let Ok(file) = std::env::var("MT_SIZING_SUMMARY") {
        std::fs::write(file, text).expect("the summary can be written");
    }
    assert!(median <= 1.2, "{median}");
}
