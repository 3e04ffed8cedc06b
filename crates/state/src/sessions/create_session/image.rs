//! Images of channel attributes and of the reply to CREATE_SESSION.

use super::{ChannelAttrs, CreateSessionOk};
use minicbor::{Decode, Encode};

/// The image of channel_attrs4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ChannelImage {
    #[n(0)]
    header_pad_size: u32,
    #[n(1)]
    request_size: u32,
    #[n(2)]
    response_size: u32,
    #[n(3)]
    response_cached: u32,
    #[n(4)]
    operations: u32,
    #[n(5)]
    requests: u32,
}

impl ChannelImage {
    pub(crate) fn of(attrs: &ChannelAttrs) -> Self {
        let ChannelAttrs {
            header_pad_size,
            request_size,
            response_size,
            response_cached,
            operations,
            requests,
        } = *attrs;
        Self { header_pad_size, request_size, response_size, response_cached, operations, requests }
    }
}

impl ChannelImage {
    /// Returns ca_maxrequests of the channel.
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }
}

impl From<ChannelImage> for ChannelAttrs {
    fn from(image: ChannelImage) -> Self {
        let ChannelImage {
            header_pad_size,
            request_size,
            response_size,
            response_cached,
            operations,
            requests,
        } = image;
        Self { header_pad_size, request_size, response_size, response_cached, operations, requests }
    }
}

/// The reply to a CREATE_SESSION that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct CreateSessionOkImage {
    #[cbor(n(0), with = "minicbor::bytes")]
    sessionid: [u8; 16],
    #[n(1)]
    sequence: u32,
    #[n(2)]
    flags: u32,
    #[n(3)]
    fore: ChannelImage,
    #[n(4)]
    back: ChannelImage,
}

impl CreateSessionOkImage {
    pub(crate) fn of(reply: &CreateSessionOk) -> Self {
        let CreateSessionOk { sessionid, sequence, flags, fore, back } = *reply;
        let (fore, back) = (ChannelImage::of(&fore), ChannelImage::of(&back));
        Self { sessionid, sequence, flags, fore, back }
    }
}

impl From<CreateSessionOkImage> for CreateSessionOk {
    fn from(CreateSessionOkImage { sessionid, sequence, flags, fore, back }: CreateSessionOkImage) -> Self {
        Self { sessionid, sequence, flags, fore: fore.into(), back: back.into() }
    }
}
