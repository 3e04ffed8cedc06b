//! Clients of NFSv4.0 (RFC 7530).

mod clients;
mod leases;
mod owners;

use super::shared;
use super::world::*;
use crate::v40::*;
use crate::*;
use nfs4::Stateid4;
use std::net::IpAddr;

/// A client that is confirmed, and opens by one owner.
struct ConfirmedClient {
    name: Vec<u8>,
    verifier: [u8; 8],
    principal: Principal,
    address: IpAddr,
    clientid: u64,
}

impl ConfirmedClient {
    fn new(name: &str) -> Self {
        Self {
            name: name.as_bytes().to_vec(),
            verifier: [1; 8],
            principal: Principal::new("sys:0"),
            address: ADDRESS,
            clientid: 0,
        }
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            connection: 1,
            address: self.address,
            principal: &self.principal,
            protection: Protection::None,
        }
    }

    fn set(&self, world: &mut World) -> Result<SetclientidOk> {
        let (random, now) = (world.random(), world.now);
        let args = Setclientid { id: &self.name, verifier: self.verifier };
        world
            .state
            .with(|state, effects| state.v40().setclientid(now, &self.caller(), &args, random, effects))
    }

    fn confirm(&self, world: &World, set: SetclientidOk) -> Result<()> {
        let (id, confirm) = (set.clientid, set.confirm);
        let now = world.now;
        world
            .state
            .with(|state, effects| state.v40().setclientid_confirm(now, &self.caller(), id, confirm, effects))
    }

    /// SETCLIENTID and its confirmation.
    fn mount(&mut self, world: &mut World) {
        let set = self.set(world).unwrap();
        self.confirm(world, set).unwrap();
        self.clientid = set.clientid;
    }

    fn ready(world: &mut World, name: &str) -> Self {
        let mut client = Self::new(name);
        client.mount(world);
        client
    }

    fn key(&self, world: &World) -> ClientKey {
        world.state.v40().client_of_id_40(world.now, &root(), self.clientid).unwrap()
    }

    fn renew(&self, world: &World) -> Result<()> {
        world.state.v40().renew_40(world.now, &self.caller(), self.clientid)
    }

    /// An OPEN that is confirmed at once, as a reclaim is.
    fn open(&self, world: &mut World, file: u32, claim: OpenClaim) -> Result<Stateid4> {
        let key = world.state.v40().client_of_id_40(world.now, &root(), self.clientid)?;
        let owner = world.state.v40().state_owner(world.now, key, OwnerKind::Open, b"owner")?;
        let request = OpenRequest {
            owner: b"owner",
            file: &file,
            access: 3,
            deny: 0,
            claim,
            opener: anyone(),
            truncates: false,
        };
        let needed = world.state.open_check(world.now, key, &request)?;
        let payload = world.random();
        let OpenOutcome::Opened(stateid) = world.state.open(world.now, key, &request, payload, needed)?
        else {
            panic!("opened with what open_check asked for")
        };
        let mut turn = owner.turn();
        world.state.v40().opened_40(&mut turn, &stateid, &self.principal, true);
        Ok(stateid)
    }
}
