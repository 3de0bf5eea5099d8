//! A job's own choice of GPUs, interpreted as CUDA does.

/// The variable that lists the GPUs visible to a program.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// The variable that says in which order GPUs are numbered.
pub const ORDER: &str = "CUDA_DEVICE_ORDER";

/// The GPU numbers of the server: which GPU has which number.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// UUIDs of the GPUs that the server sees, in CUDA's order.
    seen: Vec<String>,
    /// The server's own value of [`VISIBLE`], which hides other GPUs.
    told: Option<String>,
    /// The server's own value of [`ORDER`].
    order: Option<String>,
}

/// A job's own variables about GPUs.
#[derive(Debug, Default)]
pub(crate) struct Choice<'a> {
    visible: Option<&'a str>,
    order: Option<&'a str>,
}

/// Whether a value of [`VISIBLE`] selects no GPU: CUDA ignores everything from the first invalid number on.
pub(crate) fn is_none(choice: &str) -> bool {
    let first = choice.split(',').next().unwrap_or_default().trim();
    first.is_empty() || first.starts_with('-') || first == "NoDevFiles"
}

impl Numbers {
    /// The numbers of this process, which sees the GPUs `seen`.
    pub(crate) fn of_this_process(seen: Vec<String>) -> Self {
        Self {
            seen,
            told: std::env::var(VISIBLE).ok(),
            order: std::env::var(ORDER).ok(),
        }
    }

    /// UUID of the GPU with this number, for a program that sees all GPUs of the machine.
    fn numbered(&self, number: usize) -> Option<&str> {
        let at = match &self.told {
            None => number,
            // The server knows only the GPUs that its own variable names.
            Some(told) => told
                .split(',')
                .position(|one| one.trim().parse() == Ok(number))?,
        };
        self.seen.get(at).map(String::as_str)
    }
}

impl<'a> Choice<'a> {
    /// Reads the choice from the variables of a job.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<&'a String>) -> Self {
        let text = |name| variable(name).map(String::as_str);
        Self {
            visible: text(VISIBLE),
            order: text(ORDER),
        }
    }

    /// Positions in `uuids` of the GPUs that the job chooses, ascending; empty if it chooses none; `None` if it makes
    /// no choice.
    ///
    /// # Errors
    /// Names the GPU that the queue does not have, and why.
    pub(crate) fn among(
        &self,
        uuids: &[&str],
        numbers: &Numbers,
    ) -> Result<Option<Vec<usize>>, String> {
        // The same value as the server's is no choice: the job sees the same GPUs as the server.
        let Some(visible) = self.visible.filter(|v| Some(*v) != numbers.told.as_deref()) else {
            return Ok(None);
        };
        if is_none(visible) {
            return Ok(Some(Vec::new()));
        }
        let mut all = Vec::new();
        for one in visible.split(',').map(str::trim) {
            // CUDA ignores everything from the first invalid entry on.
            if is_none(one) {
                break;
            }
            let found = self.one(one, uuids, numbers).map_err(|why| {
                format!(
                    "{VISIBLE} is {visible:?}, but {why}; this queue runs jobs on {}: name some of them, unset it, or use another queue (--queue DIR) whose server is started with that value",
                    uuids.join(", ")
                )
            })?;
            all.push(found);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Some(all))
    }

    fn one(&self, one: &str, uuids: &[&str], numbers: &Numbers) -> Result<usize, String> {
        let at = |uuid: &str| uuids.iter().position(|known| *known == uuid);
        if let Ok(number) = one.parse::<usize>() {
            let other = self.order.is_some() && self.order != numbers.order.as_deref();
            if other && numbers.seen.len() > 1 {
                return Err(format!(
                    "with its {ORDER} the number {number} may be another GPU than for the server of the queue"
                ));
            }
            let uuid = numbers.numbered(number);
            let uuid =
                uuid.ok_or_else(|| format!("the queue does not know the GPU number {number}"))?;
            return at(uuid).ok_or_else(|| format!("MPS cannot share the GPU {uuid}"));
        }
        if one.starts_with("MIG-") {
            return Err(format!(
                "{one} is a part of a GPU, which this queue does not share"
            ));
        }
        // The beginning of a UUID suffices if it is unique.
        let mut named = numbers.seen.iter().filter(|uuid| uuid.starts_with(one));
        match (named.next(), named.next()) {
            (Some(uuid), None) => {
                at(uuid).ok_or_else(|| format!("MPS cannot share the GPU {uuid}"))
            }
            (Some(_), Some(_)) => Err(format!("{one} is the beginning of several names")),
            (None, _) => Err(format!("{one} is none of its GPUs")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [&str; 3] = ["GPU-ab", "GPU-cd", "GPU-ce"];

    /// The choice in a queue that has the last two GPUs of the machine.
    fn among(visible: &str, told: Option<&str>) -> Result<Option<Vec<usize>>, String> {
        let numbers = Numbers {
            seen: SEEN.map(str::to_owned).to_vec(),
            told: told.map(str::to_owned),
            order: None,
        };
        let choice = Choice {
            visible: Some(visible),
            order: None,
        };
        choice.among(&SEEN[1..], &numbers)
    }

    #[test]
    fn a_choice_is_read_as_cuda_reads_it() {
        for (choice, wanted) in [
            ("1", vec![0]),
            (" 2 , 1", vec![0, 1]),
            ("1,-1,0", vec![0]),
            ("GPU-cd", vec![0]),
            ("GPU-ce,1", vec![0, 1]),
            ("", vec![]),
            ("-1", vec![]),
            ("NoDevFiles", vec![]),
        ] {
            assert_eq!(among(choice, None), Ok(Some(wanted)), "{choice:?}");
        }
    }

    #[test]
    fn what_cannot_be_granted_is_named() {
        for (choice, why) in [
            ("0", "MPS cannot share the GPU GPU-ab"),
            ("3", "the GPU number 3"),
            ("1,0", "MPS cannot share the GPU GPU-ab"),
            ("GPU-c", "the beginning of several"),
            ("GPU-x", "none of its GPUs"),
            ("MIG-cd", "a part of a GPU"),
        ] {
            let refused = among(choice, None).unwrap_err();
            assert!(refused.contains(why), "{choice:?}: {refused}");
        }
    }

    #[test]
    fn numbers_are_those_that_the_server_was_given() {
        assert_eq!(among("5,6,7", Some("5,6,7")), Ok(None));
        assert_eq!(among("7", Some("5,6,7")), Ok(Some(vec![1])));
        assert!(among("1", Some("5,6,7")).is_err());
    }

    #[test]
    fn numbers_of_another_order_are_refused() {
        let numbers = Numbers {
            seen: SEEN.map(str::to_owned).to_vec(),
            told: None,
            order: None,
        };
        let choice = |visible| Choice {
            visible: Some(visible),
            order: Some("PCI_BUS_ID"),
        };
        assert!(choice("1").among(&SEEN, &numbers).is_err());
        assert_eq!(choice("GPU-cd").among(&SEEN, &numbers), Ok(Some(vec![1])));
    }
}
