package gpp_test

import (
	"fmt"

	"sluice/gpp"
)

func ExampleParse() {
	g, err := gpp.Parse("DBABLA~CVQaAAAAAACA.YA")
	if err != nil {
		fmt.Println(err)
		return
	}
	usnat := g.Section(gpp.USNat)
	optOut, _ := usnat.Value("SaleOptOut")
	on, said := usnat.GPC()
	fmt.Println(g.IDs(), usnat.Name(), optOut, on, said)
	// Output: [7] usnat 1 true true
}

// An error says where the string is malformed. It may go into a log: it holds nothing of the string.
func ExampleParse_rejected() {
	_, err := gpp.Parse("DBABLA~CVQ6AAAAAACA")
	fmt.Println(err)
	_, err = gpp.Parse("DBABrRVEVVQUEBG~BAAAAAAAAQA")
	fmt.Println(err)
	// Output:
	// section usnat, SaleOptOut: holds 3, a value that is not defined
	// header, Sections: an id is over 63
}

func ExampleString_Decide() {
	g, err := gpp.Parse("DBABh4A~BUoAAACA~BVkAACA") // California and Virginia
	if err != nil {
		fmt.Println(err)
		return
	}
	california := g.Decide([]int32{gpp.USCA})
	fmt.Println(california.Outcome, california.Reasons())
	virginia := g.Decide([]int32{gpp.USVA})
	fmt.Println(virginia.Outcome, virginia.Reasons())
	// Output:
	// unrestricted []
	// measurement_only [usva.TargetedAdvertisingOptOut]
}

func ExampleSignals() {
	g, err := gpp.Parse("DBABLA~CVQqAAAAAACA")
	if err != nil {
		fmt.Println(err)
		return
	}
	usp, err := gpp.ParseUSPrivacy("1YYN")
	if err != nil {
		fmt.Println(err)
		return
	}
	d := gpp.Signals{GPP: g, SIDs: []int32{gpp.USNat}, USPrivacy: usp}.Decide()
	fmt.Println(d.Outcome, d.Reasons())
	// Output: measurement_only [us_privacy_string.OptOutSale]
}

func ExampleString_AppendJSON() {
	g, err := gpp.Parse("DBABTA~1YNN")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", g.AppendJSON(nil))
	// Output: {"uspv1":{"Version":1,"Notice":"Y","OptOutSale":"N","LspaCovered":"N"}}
}

// Vendors are kept as they are encoded; asking for one reads no more than it must.
func ExampleVendors() {
	g, err := gpp.Parse("DBABMA~COoC-kUOoC-kUAHABAENAwCoAIAAAELAAAwIF5wAoAAgAGAvMACX_ABBAAQAFA")
	if err != nil {
		fmt.Println(err)
		return
	}
	tc := g.Section(gpp.TCFEUv2).TCF()
	fmt.Println(tc.ConsentLanguage, tc.PurposeConsents.Has(1), tc.PurposeConsents.Has(4))
	fmt.Println(tc.VendorConsents.Has(755), tc.VendorConsents.Has(756))
	for first, last := range tc.VendorConsents.Ranges() {
		fmt.Println(first, last)
	}
	// Output:
	// EN true false
	// true false
	// 1 3
	// 755 755
}

// Who keeps no string may read all of them into the same memory.
func ExampleString_Parse() {
	strings := []string{"DBABLA~CVQqAAAAAACA", "DBABLA~CVQaAAAAAACA", "DBABLA~CVQqAAAAAACA.YA", "not a string"}
	counts := map[gpp.Outcome]int{}

	var g gpp.String
	for _, s := range strings {
		if err := g.Parse(s); err != nil {
			continue
		}
		d := g.Decide([]int32{gpp.USNat})
		counts[d.Outcome]++
	}
	fmt.Println(counts[gpp.Unrestricted], counts[gpp.MeasurementOnly])
	// Output: 1 2
}
