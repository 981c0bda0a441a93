package engine

import (
	"slices"
	"strings"
)

// A Line names originals that had one key, one after the other, and are known to be
// deleted: their UIDs, the last one first, with commas between. It is bounded: of one who
// was deleted before so many others nothing is known, as of one whose deletion nobody saw.
type Line string

// generations is how many a Line names at most.
const generations = 16

func (l Line) uids() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), ",")
}

// has reports whether the Line names an original.
func (l Line) has(uid string) bool { return uid != "" && slices.Contains(l.uids(), uid) }

// with returns the Line with an original at its head.
func (l Line) with(uid string) Line {
	if uid == "" {
		return l
	}
	uids := append([]string{uid}, l.without(uid).uids()...)
	return Line(strings.Join(uids[:min(len(uids), generations)], ","))
}

// without returns the Line without an original.
func (l Line) without(uid string) Line {
	return Line(strings.Join(slices.DeleteFunc(l.uids(), func(u string) bool { return u == uid }), ","))
}

// and returns the Line with all of an older one behind it.
func (l Line) and(older Line) Line {
	uids := l.uids()
	for _, uid := range older.uids() {
		if !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return Line(strings.Join(uids[:min(len(uids), generations)], ","))
}
