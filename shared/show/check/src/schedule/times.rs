use doc::{ClusterJob, GpuGroup};

/// Training and synchronisation on a GPU of the group, if the job can run there.
pub fn times(job: &ClusterJob, group: &GpuGroup) -> Option<(f64, f64)> {
    let too_big = matches!((job.memory, group.memory), (Some(need), Some(have)) if need > have);
    let train = job.train.get(&group.kind).filter(|_| !too_big)?;
    Some((
        train.get(),
        job.sync.get(&group.kind).map_or(0.0, |s| s.get()),
    ))
}
