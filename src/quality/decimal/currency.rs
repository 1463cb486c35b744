//! Currency marks at the ends of an amount.

/// ISO 4217 codes, and the signs and words of common currencies that Unicode has no currency sign for.
const WORDS: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd cad cdf \
    chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq gyd hkd \
    hnl hrk htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd \
    mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg \
    qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb tjs tmt tnd top try ttd twd \
    tzs uah ugx usd uyu uzs ves vnd vuv wst xaf xcd xof xpf yer zar zmw zwl \
    rm rs re kr zł zl kč kc ft fr sfr dh dhs tl lei din rp r us s a c hk nt nz ca au mx \
    euro euros dollar dollars pound pounds ringgit";

/// The text without a currency mark at either end. Returns `None` when a mark is there but is none of a currency.
pub(super) fn strip(text: &str) -> Option<&str> {
    let text = strip_end(strip_start(text)?)?;
    Some(text.trim())
}

fn strip_start(text: &str) -> Option<&str> {
    let end = text.find(|c| !is_mark(c)).unwrap_or(text.len());
    let (mark, rest) = text.split_at(end);
    // The point of `Rs.` belongs to the word; that of `.50` and `$.50` to the number.
    let ends_in_letter = mark.ends_with(char::is_alphabetic);
    let rest = if ends_in_letter { rest.strip_prefix('.').unwrap_or(rest) } else { rest };
    is_currency(mark).then(|| rest.trim_start())
}

fn strip_end(text: &str) -> Option<&str> {
    let body = text.trim_end_matches(is_mark);
    let body = if body.len() == text.len() {
        // `8.00 kr.`
        let dotted = text.strip_suffix('.').unwrap_or(text);
        let body = dotted.trim_end_matches(is_mark);
        if body.len() == dotted.len() { text } else { body }
    } else {
        body
    };
    is_currency(text[body.len()..].trim_end_matches('.')).then(|| body.trim_end())
}

fn is_mark(character: char) -> bool {
    character.is_alphabetic() || is_sign(character)
}

fn is_sign(character: char) -> bool {
    matches!(
        character,
        '$' | '£' | '¥' | '฿' | '৳' | '៛' | '﷼' | '＄' | '￡' | '￥' | '\u{20a0}'..='\u{20cf}'
    )
}

/// Nothing, a sign, a word, or a word and a sign (`US$`, `R$`).
fn is_currency(mark: &str) -> bool {
    let letters = mark.trim_matches(is_sign);
    let signs = mark.chars().filter(|c| is_sign(*c)).count();
    let is_word = || WORDS.split_whitespace().any(|word| word == letters.to_lowercase());
    // A letter alone is one only beside its sign, except the rand.
    let is_complete = signs == 1 || letters.chars().count() > 1 || letters == "R";
    signs <= 1 && (letters.is_empty() || (is_complete && is_word()))
}
