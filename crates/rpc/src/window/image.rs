//! The image of a sequence window, for the next process of a server.

use super::{SequenceWindow, WORD_BITS};
use crate::MAXSEQ;
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};

/// The numbers that a context has used.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WindowImage {
    /// A bit for each number at the number modulo the size.
    #[n(0)]
    words: Vec<u64>,
    /// The largest number; nothing before the first.
    #[n(1)]
    highest: Option<u32>,
}

impl SequenceWindow {
    /// Makes an image of the window.
    pub fn image(&self) -> WindowImage {
        let Self { words, highest, used } = self;
        WindowImage { words: words.to_vec(), highest: used.then_some(*highest) }
    }

    /// Restores a window, of the size that its context was made with.
    ///
    /// # Errors
    /// A size or a number that no window has.
    pub fn restore(image: WindowImage) -> Result<Self, ImageError> {
        let WindowImage { words, highest } = image;
        let words_max = (Self::SIZE_MAX / WORD_BITS) as usize;
        ensure(words.len().is_power_of_two() && words.len() <= words_max, "the size of a sequence window")?;
        ensure(highest.is_none_or(|highest| highest <= MAXSEQ), "the numbers of a sequence window")?;
        Ok(Self { words: words.into(), highest: highest.unwrap_or(0), used: highest.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WindowOutcome;

    #[test]
    fn a_restored_window_refuses_the_numbers_that_were_used() {
        // RFC 2203 section 5.3.3.1
        let mut window = SequenceWindow::new(128);
        for number in [1, 2, 7, 100, 130] {
            assert_eq!(window.check(number), WindowOutcome::Accepted);
        }
        let image: WindowImage = image::decode(&image::encode(&window.image())).unwrap();
        let mut again = SequenceWindow::restore(image).unwrap();
        for number in 0..200 {
            assert_eq!(again.check(number), window.check(number), "{number}");
        }
        let new = SequenceWindow::restore(SequenceWindow::new(64).image()).unwrap();
        assert_eq!((new.size(), new.lag(5)), (64, 0));
    }

    #[test]
    fn windows_that_there_are_not_are_refused() {
        for (words, highest) in [(0, None), (3, None), (1 << 20, None), (1, Some(MAXSEQ + 1))] {
            assert!(SequenceWindow::restore(WindowImage { words: vec![0; words], highest }).is_err());
        }
    }
}
