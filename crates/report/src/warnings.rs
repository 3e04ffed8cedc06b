//! Sentences that a reader needs before the figures.

use bench::measuring::Record;

/// Returns the warnings of a run: its gaps, and too few repetitions.
pub(crate) fn warnings(record: &Record) -> Vec<String> {
    let why = record.stopped_by.as_deref().unwrap_or("it was interrupted");
    let incomplete = (!record.complete).then(|| format!("This run is not complete: {why}."));
    incomplete.into_iter().chain(record.skipped_sentences()).chain(too_few(record)).collect()
}

/// Says that no comparison has enough repetitions to show a difference, where that is so.
fn too_few(record: &Record) -> Option<String> {
    let figures = record.cases.iter().filter_map(|case| case.figures.as_ref());
    let mut ratios = figures.filter_map(|figures| Some(figures.against.as_ref()?.ratio)).peekable();
    ratios.peek()?;
    ratios.all(|ratio| !ratio.is_confident()).then(|| {
        "Fewer than six repetitions cannot show a difference, and no case of this run has six. Measure with \
         --repetitions 6 or more."
            .to_owned()
    })
}
