"""Sentences of kinds that the shipped networks have not learned, written for this project."""

_NEWS = """
Die Regierung hat am Mittwoch einen neuen Haushalt beschlossen.
The government approved a new budget on Wednesday.
Nach dem Erdbeben sind tausende Haushalte ohne Strom.
After the earthquake, thousands of households are without electricity.
Der Konzern will bis Jahresende achthundert Stellen streichen.
The company plans to cut eight hundred jobs by the end of the year.
Die Notenbank lässt den Leitzins zum dritten Mal unverändert.
The central bank leaves its key interest rate unchanged for the third time.
In der Hauptstadt demonstrierten Zehntausende gegen die Rentenreform.
Tens of thousands protested against the pension reform in the capital.
Die Opposition fordert den Rücktritt des Verkehrsministers.
The opposition demands the resignation of the transport minister.
Forscher warnen vor den Folgen der anhaltenden Dürre im Süden.
Researchers warn of the consequences of the persistent drought in the south.
Die Verhandlungen über einen Waffenstillstand wurden vertagt.
The negotiations on a ceasefire were adjourned.
Der Aktienkurs des Herstellers brach nach der Gewinnwarnung ein.
The manufacturer's share price collapsed after the profit warning.
Bei der Wahl zeichnet sich eine hohe Beteiligung ab.
A high turnout is expected in the election.
"""
_LAW = """
Der Mieter ist verpflichtet, Mängel der Mietsache unverzüglich anzuzeigen.
The tenant is obliged to report defects of the rented property without delay.
Die Berufung ist innerhalb eines Monats nach Zustellung des Urteils einzulegen.
The appeal must be lodged within one month of service of the judgment.
Änderungen dieses Vertrages bedürfen der Schriftform.
Amendments to this contract must be made in writing.
Die Haftung für leichte Fahrlässigkeit ist ausgeschlossen.
Liability for slight negligence is excluded.
Das Eigentum geht erst mit vollständiger Zahlung auf den Käufer über.
Title passes to the buyer only upon payment in full.
Der Beklagte trägt die Kosten des Rechtsstreits.
The defendant shall bear the costs of the proceedings.
Gerichtsstand ist der Sitz der Gesellschaft.
The place of jurisdiction is the registered office of the company.
Die Parteien verzichten auf die Einrede der Verjährung.
The parties waive the defence of limitation.
Ist eine Bestimmung unwirksam, so bleiben die übrigen Bestimmungen unberührt.
If any provision is invalid, the remaining provisions shall be unaffected.
Personenbezogene Daten werden nur mit Einwilligung des Betroffenen verarbeitet.
Personal data are processed only with the consent of the data subject.
"""
_MEDICINE = """
Der Patient klagt seit drei Tagen über Atemnot und Husten.
The patient has complained of shortness of breath and cough for three days.
Die Wunde wurde gereinigt und steril verbunden.
The wound was cleaned and dressed with a sterile bandage.
Eine Überdosierung kann zu schweren Leberschäden führen.
An overdose can lead to severe liver damage.
Im Röntgenbild zeigt sich eine Fraktur des linken Handgelenks.
The X-ray shows a fracture of the left wrist.
Nehmen Sie die Tabletten zweimal täglich vor den Mahlzeiten ein.
Take the tablets twice daily before meals.
Die Entzündungswerte im Blut sind deutlich erhöht.
The inflammatory markers in the blood are markedly elevated.
Bei bekannter Penicillinallergie ist das Präparat kontraindiziert.
In case of known penicillin allergy, the drug is contraindicated.
Der Blutdruck sank nach der Gabe des Medikaments.
Blood pressure fell after administration of the medication.
Die Impfung schützt vor einem schweren Verlauf der Erkrankung.
Vaccination protects against a severe course of the disease.
Nach der Narkose kann vorübergehend Übelkeit auftreten.
Nausea may occur temporarily after anaesthesia.
"""
_VERSE = """
Der Abend senkt sein graues Tuch auf Hain und stille Fluren.
The evening lays its cloth of grey on grove and silent meadow.
O Herbst, du streust dein spätes Gold in windverwehte Gassen.
O autumn, how you strew your gold in alleys swept by sorrow.
Ein Seufzer stieg aus tiefem Grund und fand kein Ohr auf Erden.
A sigh arose from deepest ground and found no ear to hear it.
Mein Herz, ein Boot auf dunkler Flut, vergaß den Glanz der Küste.
My heart, a boat on darkened tide, forgot the gleaming harbour.
So schweigt der Mond, so schweigt die Zeit in namenlosen Räumen.
Thus keeps the moon, thus keeps the hour its peace in nameless chambers.
Und wie der Tau im Morgenrot verglühten unsre Träume.
And like the dew at rosy dawn our dreams dissolved in splendour.
Die Rosen flüstern, was der Wind vergangnen Sommern raubte.
The roses whisper what the wind has robbed from bygone summers.
Wer nie die Nacht zum Freund gewann, der kennt nicht ihre Lieder.
Who never won the night as friend shall never learn her music.
Es rauscht das Meer sein altes Wort an taube Felsenherzen.
The ocean hums its ancient word to hearts of deafened granite.
Dort, wo der Nebel Harfen spannt, verhallt des Tages Klage.
There, where the mist is stringing harps, the day's lament is fading.
"""


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    lines = text.strip().splitlines()
    return tuple(zip(lines[::2], lines[1::2], strict=True))


_TEXTS = {"news": _NEWS, "law": _LAW, "medicine": _MEDICINE, "verse": _VERSE}
KINDS = {kind: _pairs(text) for kind, text in _TEXTS.items()}
"""(German, English) sentences by kind."""
