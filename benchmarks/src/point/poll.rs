//! epoll: the one call of the client that the standard library does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sockets that are waited for, level-triggered, for reading.
pub struct Poll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    /// Takes at most `events` at a time.
    pub fn new(events: usize) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poll { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events.max(1)] })
    }

    /// Waits for `socket` too; it is told by `token`.
    pub fn add(&self, socket: &impl AsRawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: both descriptors are open, and `event` outlives the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Tokens of the sockets that can be read, none when the time is over.
    pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        let time = libc::timespec {
            tv_sec: timeout.as_secs().min(3600) as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        };
        // SAFETY: `events` has room for as many entries as are asked for, `time` outlives the call, no signal mask.
        let count = unsafe {
            libc::epoll_pwait2(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                &time,
                std::ptr::null(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        ready.extend(self.events[..count as usize].iter().map(|event| event.u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_what_can_be_read_is_told() {
        let (mut left, right) = UnixStream::pair().unwrap();
        let mut poll = Poll::new(4).unwrap();
        poll.add(&right, 7).unwrap();
        let mut ready = vec![1];
        poll.wait(Duration::from_micros(50), &mut ready).unwrap();
        assert!(ready.is_empty());
        left.write_all(b"x").unwrap();
        poll.wait(Duration::from_secs(5), &mut ready).unwrap();
        assert_eq!(ready, [7]);
    }
}
