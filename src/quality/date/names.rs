//! Names in dates, in English, Spanish, French, German, Italian, Portuguese, Dutch and Polish, lower case and without
//! accents.

const MONTHS: [&str; 12] = [
    "january jan janv janvier januar janner enero ene gennaio gen genn janeiro januari styczen stycznia sty",
    "february feb febr februar feber febrero fevrier fev fevr febbraio febb fevereiro februari luty lutego lut",
    "march mar marzo mars marz maerz mrz marco maart mrt marzec marca",
    "april apr abril abr avril avr aprile kwiecien kwietnia kwi",
    "may mayo mai maggio mag magg maio mei maj maja",
    "june jun junio juin juni giugno giu junho czerwiec czerwca cze",
    "july jul julio juillet juil juli luglio lug julho lipiec lipca lip",
    "august aug agosto ago aout aou augustus sierpien sierpnia sie",
    "september sep sept septiembre setiembre septembre settembre sett set setembro wrzesien wrzesnia wrz",
    "october oct octubre octobre oktober okt ottobre ott outubro out pazdziernik pazdziernika paz",
    "november nov noviembre novembre novembro listopad listopada lis",
    "december dec diciembre dic decembre dezember dez dicembre dezembro grudzien grudnia gru",
];

const WEEKDAYS: &str = "monday mon tuesday tue tues wednesday wed thursday thu thur thurs friday fri saturday sat sunday sun \
    lunes lun martes miercoles mie jueves jue viernes vie sabado sab domingo dom \
    lundi mardi mercredi mer jeudi jeu vendredi ven samedi sam dimanche dim \
    montag mo dienstag di mittwoch mi donnerstag do freitag fr samstag sa sonnabend sonntag so \
    lunedi martedi mercoledi giovedi gio venerdi sabato domenica \
    segunda terca quarta quinta sexta feira seg ter qua qui sex \
    maandag ma dinsdag woensdag wo donderdag vrijdag vr zaterdag za zondag zo \
    poniedzialek pon wtorek wt sroda sr czwartek czw piatek pt sobota sob niedziela ndz";

/// Articles, prepositions, ordinal endings, the word for year, and what stands between a date and a time.
const FILLERS: &str = "st nd rd th er e o a º ª go ste de of the le el il lo la del di do d den der dem am on \
    r roku t at um kl om alle ore las";

/// The month that a word names, 1 to 12.
pub(super) fn month(word: &str) -> Option<i8> {
    (1..).zip(MONTHS).find(|(_, names)| names.split(' ').any(|name| name == word)).map(|(month, _)| month)
}

/// Whether a word may stand in a date and says nothing about it.
pub(super) fn is_silent(word: &str) -> bool {
    [WEEKDAYS, FILLERS].iter().any(|words| words.split_whitespace().any(|silent| silent == word))
}
