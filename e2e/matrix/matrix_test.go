package matrix

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var full = flag.Bool("full", false, "play every story on every combination, not only on enough of them that each pair of values meets")

// TestMain has more stories told at once than there are processors: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A combination is one value of each axis. Another axis is another field here and another
// table in combinations.
type combination struct {
	platform platform
	mode     resource.Mode
	mapping  mapping
	carrier  carrier
}

func modes() []resource.Mode { return []resource.Mode{resource.Managed, resource.Autonomous} }

// String returns the names of the values, but for the platform's.
func (c combination) String() string {
	return strings.Join([]string{c.mode.String(), c.mapping.name, c.carrier.name}, "/")
}

// combinations returns all, or enough of them that each pair of values meets: of the further
// carriers those on memory.
func combinations(all bool) []combination {
	if all {
		return combine(product, platforms(), slices.Concat(carriers(), others()))
	}
	memory := slices.DeleteFunc(platforms(), func(p platform) bool { return p.name != "memory" })
	return slices.Concat(combine(pairs, platforms(), carriers()), combine(pairs, memory, others()))
}

func combine(choose func(...int) [][]int, platforms []platform, carriers []carrier) (out []combination) {
	modes, mappings := modes(), mappings()
	for _, v := range choose(len(platforms), len(modes), len(mappings), len(carriers)) {
		out = append(out, combination{platforms[v[0]], modes[v[1]], mappings[v[2]], carriers[v[3]]})
	}
	return out
}

// TestMatrix plays all stories on the chosen combinations, all at once: what stories of a
// platform share is started once, and everything else is a story's own.
func TestMatrix(t *testing.T) {
	chosen := combinations(*full)
	for _, p := range platforms() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			g := p.open(t)
			for _, s := range stories() {
				for _, c := range chosen {
					if c.platform.name != p.name {
						continue
					}
					t.Run(s.name+"/"+c.String(), func(t *testing.T) {
						t.Parallel()
						tell(t, s, g, c)
					})
				}
			}
		})
	}
}
