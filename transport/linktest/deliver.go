package linktest

// suite returns all tests.
func suite() []test {
	return []test{
		{name: "BothWays", run: bothWays},
	}
}

func bothWays(w *world) {
	h, a := w.pair("alpha")
	down, up := table{}, table{}
	h.send(down, keys("d", 10)...)
	a.send(up, keys("u", 10)...)
	a.awaitTable(down)
	h.awaitTable(up)
}
