//! ClickBench's `hits`: 105 columns as its TSV has them, all NOT NULL.
//!
//! What the 43 queries touch follows the published answers over the full data (99,997,497 rows of July 2013): the big
//! counters and regions, the advertising engines, the spread of users, phrases and URLs, and the constants that queries
//! compare with. Rows come in sessions: one visitor on one site walks from page to page, so neighbours share values and
//! a referer is mostly the page before. The other columns have plausible small domains or are empty, as most are there.
//! No text holds a tab, a newline or a backslash, so that readers with and without escapes see the same.

use std::io::{self, Write};

use crate::parallel::{self, Until};
use crate::random::{Random, WORDS, push_date, push_number, push_signed, push_timestamp};

/// 2013-07-02 00:00:00 in seconds since 1970; the rows cover 30 days from here.
const FIRST_SECOND: i64 = 1_372_723_200;
const USERS: u64 = 17_630_976;
/// The mean of UserID.
const USER_MEAN: u64 = 2_528_953_029_789_716_000;
const PHRASES: u64 = 15_000_000;
/// Pages of all sites together.
const PAGES: u64 = 22_000_000;
/// The user of Q19, the referer of Q40 and the page of Q41 (counting from 0).
const USER_OF_Q19: i64 = 435_090_932_899_640_449;
const REFERER_OF_Q40: i64 = 3_594_120_000_172_545_465;
const PAGE_OF_Q41: i64 = 2_868_770_270_353_813_622;
/// The site that Q36 to Q42 ask for.
const SITE_OF_Q36: u64 = 62;

/// Hits in a million of the big sites; 4 % and less each of the rest.
const COUNTERS: &[(u64, u64)] = &[
    (3922, 85_300),
    (199_550, 71_200),
    (122_612, 35_700),
    (233_773, 29_400),
    (245_438, 25_100),
    (178_321, 21_000),
    (230_962, 18_200),
    (146_891, 16_100),
    (207_348, 14_000),
    (1483, 12_500),
    (SITE_OF_Q36, 7_400),
];
const REGIONS: &[(i64, u64)] =
    &[(229, 1830), (2, 669), (208, 426), (169, 332), (32, 184), (34, 179), (184, 150), (42, 140)];
/// Hits in 100 million by advertising engine.
const ENGINES: &[(i64, u64)] = &[
    (2, 404_602),
    (27, 113_167),
    (13, 45_631),
    (45, 38_960),
    (44, 9_730),
    (3, 6_896),
    (62, 5_266),
    (52, 3_554),
    (50, 938),
    (28, 836),
    (53, 350),
    (25, 343),
    (61, 158),
    (21, 38),
    (42, 20),
    (16, 7),
    (7, 3),
    (22, 1),
];
/// Users in 100,000 with (phone, model).
const PHONES: &[((i64, &str), u64)] = &[
    ((1, "iPad"), 6184),
    ((1, "iPhone"), 260),
    ((6, "A500"), 91),
    ((118, "N8-00"), 32),
    ((5, "GT-P7300B"), 25),
    ((26, "3110000"), 20),
    ((118, "eagle75"), 18),
    ((7, "HTC Desire S"), 16),
    ((5, "GT-I9300"), 15),
    ((118, "N97"), 10),
];
const SCREENS: &[((i64, i64), u64)] = &[
    ((1920, 1080), 27),
    ((1366, 768), 20),
    ((1280, 1024), 16),
    ((1600, 900), 10),
    ((1680, 1050), 9),
    ((1440, 900), 7),
    ((1024, 768), 6),
    ((2560, 1440), 3),
];
const RUSSIAN: &[&str] = &[
    "новости",
    "погода",
    "купить",
    "москва",
    "санкт-петербург",
    "автомобили",
    "скачать",
    "бесплатно",
    "онлайн",
    "фильмы",
    "смотреть",
    "недвижимость",
    "квартира",
    "работа",
    "вакансии",
    "продажа",
    "цены",
    "отзывы",
    "ремонт",
    "мебель",
    "женская",
    "одежда",
    "обувь",
    "рецепты",
    "гороскоп",
    "расписание",
    "поезда",
    "авиабилеты",
    "турция",
    "отдых",
    "футбол",
    "чемпионат",
    "россии",
    "украина",
    "киев",
    "музыка",
    "песни",
    "игры",
    "для",
    "детей",
    "девочек",
    "знакомства",
    "форум",
    "ответы",
    "карта",
    "телефон",
    "ноутбук",
    "запчасти",
    "двигатель",
    "сериал",
    "сезон",
    "серия",
    "каталог",
    "интернет-магазин",
    "доставка",
    "официальный",
    "сайт",
    "фото",
    "видео",
    "что",
    "как",
    "сделать",
    "дома",
    "лето",
];

/// One page: of a site, its number there. Page 0 is the one people enter by.
#[derive(Clone, Copy, PartialEq)]
struct Page {
    site: u64,
    number: u64,
}

impl Page {
    /// What the page's address and title are made from: the same whenever the page is met.
    fn random(self) -> Random {
        Random::new(self.site << 32 | self.number, 11)
    }

    fn url_hash(self) -> i64 {
        match self {
            Page { site: SITE_OF_Q36, number: 0 } => PAGE_OF_Q41,
            page => page.random().next() as i64,
        }
    }

    fn push_url(self, out: &mut Vec<u8>) {
        let mut random = self.random();
        random.next();
        out.extend_from_slice(if random.one_in(30) { b"https://" } else { b"http://" });
        push_host(out, self.site);
        out.push(b'/');
        if self.number == 0 {
            return;
        }
        for _ in 0..1 + random.below(4) {
            out.extend_from_slice(random.pick(WORDS).as_bytes());
            out.push(b'/');
        }
        // 1 page in 4,000 names google.
        if random.one_in(4000) {
            out.extend_from_slice(b"?from=http://www.google.ru/search");
            return;
        }
        if random.one_in(4) {
            out.extend_from_slice(random.pick(WORDS).as_bytes());
            out.extend_from_slice(b".html");
        }
        out.extend_from_slice(b"?id=");
        push_number(out, self.number);
        // Sites differ: 75 bytes are usual, some carry their whole state in the address.
        let more = match Random::new(self.site, 12).below(12) {
            0 => 7,
            1..=4 => 3,
            5..=8 => 1,
            _ => 0,
        };
        let more = if self.site == 233_773 { 14 } else { more };
        for _ in 0..more {
            out.push(b'&');
            out.extend_from_slice(random.pick(WORDS).as_bytes());
            out.push(b'=');
            match random.below(3) {
                0 => push_number(out, random.below(1_000_000)),
                1 => out.extend_from_slice(random.pick(WORDS).as_bytes()),
                _ => random.pick(RUSSIAN).bytes().take(8).for_each(|byte| {
                    out.push(b'%');
                    out.extend([byte >> 4, byte & 15].map(|digit| b"0123456789ABCDEF"[digit as usize]));
                }),
            }
        }
    }

    /// The site's words, then the page's: 30 to 120 characters. 1 in 2,000 names Google.
    fn push_title(self, out: &mut Vec<u8>) {
        let mut random = self.random();
        random.next();
        if random.one_in(12) {
            return;
        }
        if random.one_in(2000) {
            out.extend_from_slice(b"Google: ");
        }
        push_words(out, &mut random, 3, 8);
        out.extend_from_slice(" - ".as_bytes());
        push_words(out, &mut Random::new(self.site, 13), 2, 3);
    }
}

fn push_host(out: &mut Vec<u8>, site: u64) {
    let mut random = Random::new(site, 14);
    if random.one_in(3) {
        out.extend_from_slice(b"www.");
    }
    out.extend_from_slice(random.pick(WORDS).as_bytes());
    if !random.one_in(3) {
        out.extend_from_slice(random.pick(&["-", "", "."]).as_bytes());
        out.extend_from_slice(random.pick(WORDS).as_bytes());
    }
    out.extend_from_slice(random.pick(&[".ru", ".ru", ".ru", ".com", ".com.ua", ".net"]).as_bytes());
}

fn push_words(out: &mut Vec<u8>, random: &mut Random, least: u64, spread: u64) {
    for word in 0..least + random.below(spread) {
        if word > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(random.pick(RUSSIAN).as_bytes());
    }
}

fn push_phrase(out: &mut Vec<u8>, phrase: u64) {
    let mut random = Random::new(phrase, 15);
    push_words(out, &mut random, 1, 6);
    // Rare phrases would repeat without it: there are few words here.
    if phrase > 5000 {
        out.push(b' ');
        push_number(out, phrase % 100_000);
    }
}

/// Where a visitor came from.
#[derive(Clone, Copy, PartialEq)]
enum Referer {
    None,
    Page(Page),
    /// A result page of the engine for the phrase.
    Search(i64, u64),
}

impl Referer {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Referer::None => {}
            Referer::Page(page) => page.push_url(out),
            Referer::Search(engine, phrase) => {
                out.extend_from_slice(match engine {
                    2 => b"http://go.mail.ru/search?q=".as_slice(),
                    3 => b"http://yandex.ru/yandsearch?lr=213&text=",
                    _ => b"http://www.google.ru/url?sa=t&rct=j&source=web&q=",
                });
                let mut text = Vec::new();
                push_phrase(&mut text, phrase);
                out.extend(text.iter().map(|&byte| if byte == b' ' { b'+' } else { byte }));
            }
        }
    }

    fn hash(self) -> i64 {
        match self {
            Referer::None => -296_158_784_638_538_920,
            Referer::Page(Page { site: SITE_OF_Q36, number: 0 }) => REFERER_OF_Q40,
            Referer::Page(page) => page.random().next() as i64 ^ 0x55,
            Referer::Search(engine, phrase) => Random::new(phrase, 16 + engine as u64).next() as i64,
        }
    }
}

/// What stays with a visitor; nine rows in ten have it.
struct User {
    id: i64,
    region: i64,
    ip: i64,
    os: i64,
    agent: i64,
    agent_major: i64,
    phone: (i64, &'static str),
    screen: (i64, i64),
    flash: (i64, i64),
    network: i64,
    zone: i64,
    silverlight: bool,
    age: i64,
    sex: i64,
    income: i64,
    interests: i64,
    language: usize,
}

impl User {
    fn new(number: u64) -> Self {
        let mut random = Random::new(number, 17);
        let id = if number == 999 { USER_OF_Q19 } else { random.below(2 * USER_MEAN) as i64 };
        let region = random.weighted(10_000, REGIONS).unwrap_or(0);
        let region = if region == 0 { 1 + random.steep(9_030) as i64 } else { region };
        // Some networks hide thousands of people behind one address.
        let ip = if random.one_in(12) { random.steep(40_000) } else { random.below(1 << 31) };
        let ip = (Random::new(ip, 18).next() as i32).max(i32::MIN + 3);
        let phone = random.weighted(100_000, PHONES);
        // One user in 200 has another of 156 models.
        let phone =
            phone.unwrap_or_else(|| if random.one_in(200) { (7, MODELS[random.below(12) as usize]) } else { (0, "") });
        let screen = random.weighted(100, SCREENS).unwrap_or((768, 1024));
        let known = !random.one_in(3);
        User {
            id,
            region,
            ip: i64::from(ip),
            os: random.weighted(100, &[(2, 38), (44, 30), (3, 14), (19, 8), (59, 4)]).unwrap_or(7),
            agent: random.weighted(100, &[(7, 26), (3, 24), (5, 18), (2, 16), (82, 8)]).unwrap_or(26),
            agent_major: random.below(30) as i64,
            phone,
            screen: if phone.0 == 1 { (768, 1024) } else { screen },
            flash: if random.one_in(5) { (0, 0) } else { (11, random.below(9) as i64) },
            network: random.skewed(5_000_000) as i64,
            zone: random.weighted(100, &[(240, 70), (360, 9), (300, 7), (180, 6)]).unwrap_or(-1),
            silverlight: random.one_in(2),
            age: if known { [16, 22, 26, 31, 39, 50, 55][random.below(7) as usize] } else { 0 },
            sex: if known { 1 + random.below(2) as i64 } else { 0 },
            income: if known { random.below(4) as i64 } else { 0 },
            interests: if known { random.below(1 << 14) as i64 } else { 0 },
            language: random.skewed(LANGUAGES.len() as u64) as usize,
        }
    }
}

const MODELS: &[&str] = &[
    "GT-I9100",
    "GT-S5830",
    "ST25i",
    "LT26i",
    "Nokia 5800",
    "XT910",
    "MB525",
    "iPod",
    "HTC One X",
    "P990",
    "U8860",
    "Galaxy",
];
const LANGUAGES: &[(&str, &str)] = &[
    ("S0", "RU"),
    ("ru", "RU"),
    ("uk", "UA"),
    ("en", "US"),
    ("be", "BY"),
    ("kk", "KZ"),
    ("de", "DE"),
    ("lv", "LV"),
    ("et", "EE"),
    ("tr", "TR"),
    ("az", "AZ"),
];

/// One visitor on one site.
struct Session {
    user: User,
    site: u64,
    /// Pages that this site has.
    pages: u64,
    left: u64,
    second: i64,
    before: Referer,
    traffic: i64,
    shape: Shape,
}

/// How values are spread over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As in the full data: few values are frequent, and neighbours share values, because rows come in sessions.
    Sessions,
    /// Each row is a session of its own; users, pages and phrases are uniform, and there are three times the phrases.
    Spread,
}

impl Shape {
    /// Returns a number in `0..below`: in sessions, small ones are more frequent.
    fn number(self, random: &mut Random, below: u64) -> u64 {
        match self {
            Shape::Sessions => random.skewed(below),
            Shape::Spread => random.below(below),
        }
    }
}

impl Session {
    fn new(random: &mut Random, shape: Shape) -> Self {
        let site = random.weighted(1_000_000, COUNTERS).unwrap_or(0);
        let site = if site == 0 { 1000 + random.skewed(6_500) * 37 } else { site };
        let share = COUNTERS.iter().find(|(big, _)| *big == site).map_or(100, |(_, weight)| *weight);
        let pages = PAGES / 1_000_000 * share;
        // Nobody is awake at four: the later of two draws within the day.
        let second = random.below(30) as i64 * 86_400 + random.below(86_400).max(random.below(86_400)) as i64;
        let (traffic, before) = match random.below(100) {
            0..40 => (0, Referer::None),
            40..84 => {
                let engine = random.weighted(100, &[(2, 45), (3, 40)]).unwrap_or(4);
                let phrase = match shape {
                    Shape::Sessions => random.steep(PHRASES),
                    Shape::Spread => random.below(3 * PHRASES),
                };
                (2, Referer::Search(engine, phrase))
            }
            from => {
                let other = Page { site: 1000 + random.skewed(6_500) * 37, number: random.steep(200) };
                (if from < 98 { 1 } else { 3 }, Referer::Page(other))
            }
        };
        let left = match shape {
            Shape::Sessions => 1 + random.steep(10),
            Shape::Spread => 1,
        };
        Session { user: User::new(shape.number(random, USERS)), site, pages, left, second, before, traffic, shape }
    }

    /// The next page: in one case of five the one that is open, else often the one people enter by.
    fn page(&self, random: &mut Random) -> Page {
        if let Referer::Page(before) = self.before
            && before.site == self.site
            && random.one_in(5)
        {
            return before;
        }
        let number = if random.one_in(4) { 0 } else { 1 + self.shape.number(random, self.pages) };
        Page { site: self.site, number }
    }
}

/// Writes columns of one row, a tab before each but the first.
struct Row<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl Row<'_> {
    fn next(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b'\t');
        }
        self.out
    }

    fn numbers(&mut self, values: &[i64]) {
        values.iter().for_each(|&value| push_signed(self.next(), value));
    }

    fn texts(&mut self, values: &[&str]) {
        values.iter().for_each(|value| self.next().extend_from_slice(value.as_bytes()));
    }
}

fn push_row(out: &mut Vec<u8>, random: &mut Random, session: &mut Session) {
    let page = session.page(random);
    let referer = if random.one_in(16) { Referer::None } else { session.before };
    let (engine, phrase) = match referer {
        Referer::Search(engine, phrase) => (engine, Some(phrase)),
        _ => (0, None),
    };
    let time = FIRST_SECOND + session.second.min(30 * 86_400 - 1);
    let user = &session.user;
    // A tenth of a visitor's rows tell something else: the proxy, the other window.
    let odd = random.one_in(10);
    let ip = if odd { i64::from(random.next() as i32 >> 1) } else { user.ip };
    let window = (user.screen.0 - random.below(60) as i64, user.screen.1 - 100 - random.below(120) as i64);
    let bit = |random: &mut Random, one_in: u64| i64::from(random.one_in(one_in));
    let hash = |random: &mut Random| i64::from(random.next() as u32 >> 1);
    let timing = random.one_in(3);
    let timings = |random: &mut Random, most: u64| if timing { random.steep(most) as i64 } else { 0 };

    let mut row = Row { out, empty: true };
    row.numbers(&[(random.next() >> 1) as i64, bit(random, 2)]);
    page.push_title(row.next());
    row.numbers(&[1]);
    push_timestamp(row.next(), time);
    push_date(row.next(), time);
    row.numbers(&[session.site as i64, ip, user.region, user.id, bit(random, 20), user.os, user.agent]);
    page.push_url(row.next());
    referer.push(row.next());
    let site = Random::new(session.site, 19).next();
    row.numbers(&[
        bit(random, 9),
        if referer == Referer::None { 0 } else { (site % 17_000) as i64 },
        if referer == Referer::None { 0 } else { (site % 900) as i64 },
        (site >> 16 & 0x3fff) as i64,
        (site >> 32 & 0x3ff) as i64,
        user.screen.0,
        user.screen.1,
        if odd { 24 } else { 32 },
        user.flash.0,
        user.flash.1,
    ]);
    row.texts(&[if user.flash.0 == 0 {
        ""
    } else {
        ["700", "224", "257", "202", "800.94"][user.flash.1 as usize % 5]
    }]);
    row.numbers(&[0, 0, user.agent_major]);
    row.texts(&[["D9", "0", "13", "s\u{fffd}", "1", "57"][user.agent as usize % 6]]);
    row.numbers(&[1, 1, i64::from(user.phone.0 != 0), user.phone.0]);
    row.texts(&[user.phone.1, ""]);
    row.numbers(&[user.network, session.traffic, engine]);
    let cell = row.next();
    phrase.into_iter().for_each(|phrase| push_phrase(cell, phrase));
    row.numbers(&[random.weighted(100_000_000, ENGINES).unwrap_or(0), 0, window.0, window.1, user.zone]);
    push_timestamp(row.next(), time - random.below(90) as i64);
    let silver = user.silverlight;
    row.numbers(&if silver { [5, 1, 19_678, 0] } else { [0; 4] });
    row.texts(&[["windows-1251", "utf-8", "utf-8", "", "windows"][(site % 5) as usize]]);
    row.numbers(&[
        if odd { 0 } else { 1601 },
        bit(random, 8),
        bit(random, 300),
        bit(random, 2),
        if user.os == 44 { Random::new(user.id as u64, 20).next() as i64 >> 1 } else { 0 },
    ]);
    let original = row.next();
    if random.one_in(25) {
        page.push_url(original);
    }
    row.numbers(&[hash(random), 0, bit(random, 18), bit(random, 40), bit(random, 14), bit(random, 3)]);
    row.texts(&[["5", "F", "g", "E", "T", "S"][random.skewed(6) as usize]]);
    push_timestamp(row.next(), time + user.zone * 60 - 240 * 60);
    row.numbers(&[
        user.age,
        user.sex,
        user.income,
        user.interests,
        random.steep(60) as i64,
        ip ^ i64::from(odd),
        if odd { hash(random) } else { -1 },
        -1,
        random.steep(100) as i64,
    ]);
    let (language, country) = LANGUAGES[user.language];
    row.texts(&[language, country, "", if random.one_in(2000) { "like" } else { "" }]);
    row.numbers(&[
        if random.one_in(400) { 404 } else { 0 },
        timings(random, 3000),
        timings(random, 400),
        timings(random, 400),
        timings(random, 2500),
        timings(random, 9000),
        timings(random, 9000),
        if random.one_in(900) { 1 + random.below(4) as i64 } else { 0 },
    ]);
    row.texts(&[""]);
    let sold = random.one_in(5000);
    row.numbers(&[if sold { 100 * random.skewed(90_000) as i64 } else { 0 }]);
    row.texts(&["", if sold { "NHIb" } else { "NH\u{1c}" }]);
    row.numbers(&[i64::from(sold)]);
    let campaign = random.one_in(70);
    row.texts(if campaign {
        &["direct.yandex.ru", "3456122", "68223411", "sidebar", "yandex", "cpc", "leto_2013", "txt1", "купить", ""]
    } else {
        &[""; 10]
    });
    row.numbers(&[bit(random, 400), referer.hash(), page.url_hash(), 0]);
    row.out.push(b'\n');

    // The next row: from this page, a little later.
    session.left -= 1;
    session.second += 1 + random.steep(600) as i64;
    session.before = Referer::Page(page);
    session.traffic = if random.one_in(30) { 6 } else { -1 };
}

/// Writes rows as TSV; returns rows and bytes. The number of threads does not change them.
pub fn write(seed: u64, shape: Shape, until: Until, threads: usize, out: &mut impl Write) -> io::Result<(u64, u64)> {
    parallel::write(out, until, threads, |block, rows, buffer| {
        let mut random = Random::new(seed, (block + 1) << 8);
        let mut session = Session::new(&mut random, shape);
        for _ in 0..rows {
            if session.left == 0 {
                session = Session::new(&mut random, shape);
            }
            push_row(buffer, &mut random, &mut session);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn rows(count: u64) -> Vec<Vec<String>> {
        shaped(Shape::Sessions, count)
    }

    fn shaped(shape: Shape, count: u64) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        let (rows, bytes) = write(1, shape, Until::Units(count), 2, &mut out).unwrap();
        assert_eq!((rows, bytes), (count, out.len() as u64));
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\\'));
        text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    #[test]
    fn shares_are_those_of_the_full_data() {
        let rows = rows(200_000);
        assert!(rows.iter().all(|row| row.len() == 105), "{:?}", rows.iter().map(Vec::len).find(|&n| n != 105));
        let share =
            |test: &dyn Fn(&Vec<String>) -> bool| rows.iter().filter(|row| test(row)).count() as f64 / 200_000.0;
        let near = |what: &str, found: f64, wanted: f64, by: f64| {
            assert!((found / wanted - 1.0).abs() < by, "{what}: {found}, not {wanted}");
        };
        near("phrases", share(&|r| !r[39].is_empty()), 0.132, 0.05);
        near("advertising", share(&|r| r[40] != "0"), 0.0063, 0.15);
        near("region 229", share(&|r| r[8] == "229"), 0.183, 0.1);
        near("counter 3922", share(&|r| r[6] == "3922"), 0.0853, 0.1);
        near("empty referer", share(&|r| r[14].is_empty()), 0.19, 0.15);
        let width: f64 = rows.iter().map(|r| r[20].parse::<f64>().unwrap()).sum::<f64>() / 200_000.0;
        near("width", width, 1513.5, 0.02);
        let bytes = rows.iter().flatten().map(|cell| cell.len() + 1).sum::<usize>() as f64 / 200_000.0;
        near("bytes a row", bytes, 748.0, 0.15);
        let url = rows.iter().map(|r| r[13].len()).sum::<usize>() as f64 / 200_000.0;
        near("bytes a URL", url, 88.0, 0.2);
        let mut users: HashMap<&str, u32> = HashMap::new();
        rows.iter().for_each(|r| *users.entry(&r[9]).or_default() += 1);
        assert!(users.len() > 30_000, "{} users", users.len());
        assert!(rows.iter().map(|r| &r[0]).collect::<HashSet<_>>().len() == 200_000, "watch ids repeat");
        assert!(rows.iter().any(|r| r[6] == "62" && r[102] == REFERER_OF_Q40.to_string() && r[37] == "-1"));
        assert!(rows.iter().any(|r| r[6] == "62" && r[103] == PAGE_OF_Q41.to_string()));
    }

    #[test]
    fn numbers_fit_their_types_and_times_are_of_july() {
        for row in rows(20_000) {
            for (column, cell) in row.iter().enumerate() {
                match column {
                    2 | 13 | 14 | 25 | 29 | 34 | 35 | 39 | 50 | 56 | 63 | 74..=77 | 86 | 88 | 89 | 91..=100 => {}
                    4 | 45 | 64 => assert!(cell.starts_with("2013-0") && cell.len() == 19, "{column}: {cell}"),
                    5 => assert!(("2013-07-02"..="2013-07-31").contains(&cell.as_str()) && row[4].starts_with(cell)),
                    0 | 9 | 55 | 87 | 102 | 103 => {
                        cell.parse::<i64>().unwrap();
                    }
                    6 | 7 | 8 | 17 | 19 | 36 | 48 | 51 | 57 | 70 | 71 | 72 | 79..=84 | 104 => {
                        cell.parse::<i32>().unwrap_or_else(|e| panic!("{column}: {cell}: {e}"));
                    }
                    _ => {
                        cell.parse::<i16>().unwrap_or_else(|e| panic!("{column}: {cell}: {e}"));
                    }
                }
            }
        }
    }

    #[test]
    fn spread_rows_do_not_share_values_with_their_neighbours() {
        let neighbours = |shape| {
            let rows = shaped(shape, 20_000);
            assert!(rows.iter().all(|row| row.len() == 105));
            let phrases = rows.iter().map(|row| &row[39]).filter(|phrase| !phrase.is_empty());
            let (all, different) = (phrases.clone().count(), phrases.collect::<HashSet<_>>().len());
            (rows.windows(2).filter(|pair| pair[0][9] == pair[1][9]).count(), different as f64 / all as f64)
        };
        let (sessions, spread) = (neighbours(Shape::Sessions), neighbours(Shape::Spread));
        assert!(sessions.0 > 5_000 && spread.0 < 100, "{sessions:?}, {spread:?}");
        assert!(spread.1 > 0.9 && spread.1 > sessions.1, "{sessions:?}, {spread:?}");
    }
}
