// Package gpp reads strings of the Global Privacy Protocol, GPP, which was the Global Privacy Platform.
//
// A string is read strictly: [Parse] accepts it only if every part is well formed, and otherwise returns an [*Error]
// that names the part. All published sections are decoded: the European and Canadian TC strings, uspv1, the US national
// section in both versions and the twenty US states, with their subsections, in every encoding that the official
// libraries have written. Sections without a published layout, and sections that are newer than what is read, are kept,
// marked as opaque.
//
//	g, err := gpp.Parse("DBABLA~CVQaAAAAAACA")
//	g.Section(gpp.USNat).Value("SaleOptOut") // 1: opted out
//
// What a string allows is an [Outcome]. [String.Decide] takes the sections that are in force, which a sender says in
// gpp_sid, and [Signals] adds what else is said about consent; the most restrictive signal wins, and the [Decision]
// names the fields it rests on, such as "usnat.SaleOptOut".
//
// Any input is read in bounded time and memory: vendor lists stay in the encoding of the string until somebody asks,
// and no number in a string decides how much is allocated. Nothing of a string's content is in an error.
package gpp
