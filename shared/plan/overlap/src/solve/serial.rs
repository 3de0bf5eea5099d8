use crate::Link;
use crate::instance::Instance;
use crate::solve::anytime::mitten;

/// Up to this many tasks every order is tried: 5,040 orders for 7.
const TRIED_TASKS: usize = 7;

/// Seconds of the round if the tasks compute one after another, each alone on the whole device at `solo[i]` samples
/// per second. Transfers overlap the compute of others, and all three have the same order. Sharing must be faster
/// than this.
///
/// The best order of a three-machine flow shop: for up to 7 tasks by trying all orders, for more by
/// Johnson's rule on `d + c` and `c + u` (exact if no transfer takes time). On a shared or
/// half-duplex link, downloads and uploads are assumed not to overlap each other.
#[must_use]
pub fn one_after_another(instance: &Instance, solo: &[f64]) -> f64 {
    let jobs = instance.jobs();
    let compute: Vec<f64> = jobs.iter().zip(solo).map(|(j, s)| j.work / s).collect();
    let play = |order: &[usize]| {
        let mut down = 0.0_f64;
        let mut busy = 0.0_f64;
        let mut up = 0.0_f64;
        for &i in order {
            down += jobs[i].download_s;
            busy = busy.max(down) + compute[i];
            up = up.max(busy) + jobs[i].upload_s;
        }
        let transfers: f64 = jobs.iter().map(|j| j.download_s + j.upload_s).sum();
        match instance.link() {
            Link::Full => up,
            Link::Half | Link::Shared => up.max(transfers),
        }
    };
    let mut order = mitten(instance, &compute);
    let mut best = play(&order);
    if order.len() <= TRIED_TASKS {
        try_all(&mut order, 0, &mut |o| best = best.min(play(o)));
    }
    best
}

/// Visits every order of the tasks from position `k` on.
fn try_all(order: &mut [usize], k: usize, visit: &mut impl FnMut(&[usize])) {
    if k == order.len() {
        return visit(order);
    }
    for i in k..order.len() {
        order.swap(k, i);
        try_all(order, k + 1, visit);
        order.swap(k, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RoundTask;

    fn instance(jobs: &[(f64, f64, f64)]) -> Instance {
        let job = |&(download_s, work, upload_s): &(f64, f64, f64)| RoundTask {
            download_s,
            work,
            upload_s,
        };
        Instance::new(jobs.iter().map(job).collect(), Link::Full).unwrap()
    }

    #[test]
    fn without_transfers_it_is_the_sum() {
        let s = one_after_another(
            &instance(&[(0.0, 100.0, 0.0), (0.0, 60.0, 0.0)]),
            &[10.0, 20.0],
        );
        assert!((s - 13.0).abs() < 1e-12);
    }

    #[test]
    fn transfers_overlap_the_compute_of_others() {
        // b first: 1 + 3 + 10 + 1, with its upload of 2 hidden; a first would take 4 + 10 + 3 + 2.
        let s = one_after_another(&instance(&[(4.0, 10.0, 1.0), (1.0, 3.0, 2.0)]), &[1.0, 1.0]);
        assert!((s - 16.0).abs() < 1e-12, "{s}");
    }
}
