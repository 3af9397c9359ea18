//! A name server on loopback that says what a test wants, over UDP and TCP on one port.
//!
//! It knows IPv4 and IPv6 addresses and nothing else; of a name that it was not told there is none.
//! Over UDP it cuts what is longer than the 512 bytes that every client takes, and says so.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest answer over UDP.
const SHORT: usize = 512;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
const A: u16 = 1;
const AAAA: u16 = 28;
const CNAME: u16 = 5;
const OK: u16 = 0;
const NO_SUCH_NAME: u16 = 3;

/// What it says of a name.
#[derive(Clone, Debug)]
pub enum Says {
    /// These addresses, good for so many seconds. None of a kind is "no data".
    Addresses(Vec<IpAddr>, u32),
    /// Another name for it.
    Alias(String),
    /// There is no such name.
    NoSuchName,
    /// This code: 2 is SERVFAIL, 5 REFUSED.
    Code(u16),
    /// Nothing at all.
    Silence,
    /// What is no message.
    Junk,
}

type Book = Arc<Mutex<HashMap<(String, u16), Says>>>;

/// A name server that runs until dropped.
#[derive(Debug)]
pub struct NameServer {
    /// Where it is, over UDP and TCP.
    pub address: SocketAddr,
    book: Book,
    asked: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
}

impl NameServer {
    /// Starts one that knows nothing.
    pub fn start() -> io::Result<Self> {
        let (tcp, udp) = both()?;
        let address = udp.local_addr()?;
        let (book, asked, over) = (Book::default(), Arc::default(), Arc::<AtomicBool>::default());
        let clerk = Clerk { book: Arc::clone(&book), asked: Arc::clone(&asked) };
        udp.set_read_timeout(Some(LOOK))?;
        tcp.set_nonblocking(true)?;
        let (end, writer) = (Arc::clone(&over), clerk.clone());
        std::thread::spawn(move || {
            while !end.load(Relaxed) {
                writer.serve_udp(&udp);
            }
        });
        let end = Arc::clone(&over);
        std::thread::spawn(move || {
            while !end.load(Relaxed) {
                clerk.serve_tcp(&tcp);
            }
        });
        Ok(Self { address, book, asked, over })
    }

    /// From now on it says this of all addresses of a name, which is written with its last dot.
    pub fn say(&self, name: &str, says: &Says) {
        self.say_of_v4(name, says);
        self.say_of_v6(name, says);
    }

    /// Of its IPv4 addresses alone.
    pub fn say_of_v4(&self, name: &str, says: &Says) {
        lock(&self.book).insert((name.to_owned(), A), says.clone());
    }

    /// Of its IPv6 addresses alone.
    pub fn say_of_v6(&self, name: &str, says: &Says) {
        lock(&self.book).insert((name.to_owned(), AAAA), says.clone());
    }

    /// All names that were asked for, and how: `udp A chat.`
    pub fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two sockets with one port.
fn both() -> io::Result<(TcpListener, UdpSocket)> {
    let mut last = io::Error::other("no port");
    for _ in 0..20 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, udp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[derive(Clone)]
struct Clerk {
    book: Book,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Clerk {
    fn serve_udp(&self, socket: &UdpSocket) {
        let mut query = [0; SHORT];
        let Ok((length, client)) = socket.recv_from(&mut query) else { return };
        let Some(mut answer) = self.answer("udp", &query[..length]) else { return };
        if answer.len() > SHORT {
            // Of its records none is left.
            answer.truncate(length);
            answer[2] |= 0x02;
            answer[6..12].fill(0);
        }
        let _ = socket.send_to(&answer, client);
    }

    fn serve_tcp(&self, listener: &TcpListener) {
        let Ok((mut client, _)) = listener.accept() else {
            return std::thread::sleep(LOOK);
        };
        let clerk = self.clone();
        std::thread::spawn(move || -> io::Result<()> {
            client.set_nonblocking(false)?;
            client.set_read_timeout(Some(Duration::from_secs(10)))?;
            loop {
                let mut length = [0; 2];
                client.read_exact(&mut length)?;
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                client.read_exact(&mut query)?;
                if let Some(answer) = clerk.answer("tcp", &query) {
                    client.write_all(&(answer.len() as u16).to_be_bytes())?;
                    client.write_all(&answer)?;
                }
            }
        });
    }

    fn answer(&self, way: &str, query: &[u8]) -> Option<Vec<u8>> {
        let (name, kind, question) = question(query)?;
        let told = if kind == A { "A" } else { "AAAA" };
        lock(&self.asked).push(format!("{way} {told} {name}"));
        let says = lock(&self.book).get(&(name, kind)).cloned().unwrap_or(Says::NoSuchName);
        let (code, records) = match says {
            Says::Silence => return None,
            Says::Junk => return Some(b"\xff\xff is no message".to_vec()),
            Says::Code(code) => (code, Vec::new()),
            Says::NoSuchName => (NO_SUCH_NAME, Vec::new()),
            Says::Alias(name) => (OK, vec![record(CNAME, 60, &labels(&name))]),
            Says::Addresses(addresses, ttl) => {
                let records = addresses.iter().filter_map(|address| match address {
                    IpAddr::V4(ip) if kind == A => Some(record(A, ttl, &ip.octets())),
                    IpAddr::V6(ip) if kind == AAAA => Some(record(AAAA, ttl, &ip.octets())),
                    _ => None,
                });
                (OK, records.collect())
            }
        };
        let mut out = query[..2].to_vec();
        // An answer, of one who may be asked for others' names, with this code.
        out.extend((0x8180 | code).to_be_bytes());
        for count in [1, records.len() as u16, 0, 0] {
            out.extend(count.to_be_bytes());
        }
        out.extend(question);
        out.extend(records.concat());
        Some(out)
    }
}

/// The name that is asked for, in lower case, the kind, and all of it as it stands.
fn question(query: &[u8]) -> Option<(String, u16, &[u8])> {
    let mut name = String::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        name += &String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase();
        name.push('.');
        at += length;
    }
    let kind = u16::from_be_bytes(query.get(at..at + 2)?.try_into().ok()?);
    Some((name, kind, query.get(12..at + 4)?))
}

/// Of the name in the question.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0, 12];
    out.extend(kind.to_be_bytes());
    out.extend(1_u16.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

fn labels(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split_terminator('.') {
        out.push(label.len() as u8);
        out.extend(label.bytes());
    }
    out.push(0);
    out
}
