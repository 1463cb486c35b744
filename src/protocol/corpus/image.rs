//! Images of a document: files on this machine, known by their contents.

use super::lines::whole_file;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// What its first bytes say it is.
    pub format: ImageFormat,
    /// SHA-256 of its contents when the corpus was read.
    pub sha256: [u8; 32],
}

/// The formats that engines are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// `.png`
    Png,
    /// `.jpg`, `.jpeg`
    Jpeg,
    /// `.webp`
    WebP,
}

impl ImageFormat {
    /// The media type of a data URL.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
        }
    }

    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "png" => Some(Self::Png),
            "jpg" | "jpeg" => Some(Self::Jpeg),
            "webp" => Some(Self::WebP),
            _ => None,
        }
    }

    fn of_contents(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }
}

impl Image {
    /// Reads an image, or says what is wrong with it.
    pub(super) fn read(path: PathBuf) -> Result<Self, String> {
        if ImageFormat::of_name(&path).is_none() {
            return Err("is not one of .png, .jpg, .jpeg, .webp".to_owned());
        }
        let bytes = whole_file(&path)?;
        // A wrong extension is harmless; an engine that is told a wrong media type is not.
        let format = ImageFormat::of_contents(&bytes).ok_or("does not hold a PNG, JPEG or WebP image")?;
        Ok(Self { path, format, sha256: Sha256::digest(&bytes).into() })
    }
}
