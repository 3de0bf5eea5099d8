use doc::{ClusterJob, GpuGroup};

/// Training and synchronisation time on a GPU of the group; `None` if the job cannot run there.
pub fn times(job: &ClusterJob, group: &GpuGroup) -> Option<(f64, f64)> {
    let too_big = matches!((job.memory, group.memory), (Some(need), Some(have)) if need > have);
    let train = job.train.get(&group.kind).filter(|_| !too_big)?;
    Some((
        train.get(),
        job.sync.get(&group.kind).map_or(0.0, |s| s.get()),
    ))
}
