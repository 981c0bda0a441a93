package matrix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// product returns all choices of one value of each axis, given how many values each has. A
// value is a number from 0.
func product(axes ...int) [][]int {
	rows := [][]int{nil}
	for _, n := range axes {
		var longer [][]int
		for _, row := range rows {
			for v := range n {
				longer = append(longer, append(row[:len(row):len(row)], v))
			}
		}
		rows = longer
	}
	return rows
}

// A pair is one value of each of two axes.
type pair struct{ axis, value, other, otherValue int }

func pairsOf(row []int) (out []pair) {
	for a := range row {
		for b := a + 1; b < len(row); b++ {
			out = append(out, pair{a, row[a], b, row[b]})
		}
	}
	return out
}

// pairs returns few choices of one value of each axis in which every pair of values of two
// axes is together at least once. It takes, again and again, the first choice in which most
// pairs meet that have not met yet.
func pairs(axes ...int) (rows [][]int) {
	missing := map[pair]bool{}
	for _, row := range product(axes...) {
		for _, p := range pairsOf(row) {
			missing[p] = true
		}
	}
	for len(missing) > 0 {
		var best []int
		most := 0
		for _, row := range product(axes...) {
			meet := 0
			for _, p := range pairsOf(row) {
				if missing[p] {
					meet++
				}
			}
			if meet > most {
				best, most = row, meet
			}
		}
		for _, p := range pairsOf(best) {
			delete(missing, p)
		}
		rows = append(rows, best)
	}
	return rows
}

func TestEachPairOfValuesMeets(t *testing.T) {
	for _, test := range []struct {
		axes []int
		rows int // no fewer would do
	}{
		{[]int{3, 2}, 6},
		{[]int{3, 2, 2, 1}, 6},
		{[]int{3, 2, 2, 4}, 12},
		{[]int{1, 1, 1}, 1},
		{[]int{4, 3, 3, 3}, 12},
	} {
		t.Run(fmt.Sprint(test.axes), func(t *testing.T) {
			rows := pairs(test.axes...)
			require.Len(t, rows, test.rows)
			require.Equal(t, rows, pairs(test.axes...), "they are the same every time")
			met := map[pair]bool{}
			for _, row := range rows {
				for _, p := range pairsOf(row) {
					met[p] = true
				}
			}
			for _, row := range product(test.axes...) {
				for _, p := range pairsOf(row) {
					require.True(t, met[p], "%+v", p)
				}
			}
		})
	}
}

func TestProductHasAll(t *testing.T) {
	require.Equal(t, [][]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}, product(3, 2))
}
