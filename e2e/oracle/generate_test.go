package oracle

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var seeds = flag.Int("seeds", 300, "how many objects are made for each test")

// everySeed runs a test once with each seed.
func everySeed(t *testing.T, test func(*testing.T, *generator)) {
	for seed := range *seeds {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			test(t, &generator{rand.New(rand.NewPCG(uint64(seed), 1))})
		})
		if !ok {
			return // one is enough to look at
		}
	}
}

// A generator makes values that an API server would take, and every field of which Argo CD
// could have set.
type generator struct{ *rand.Rand }

// depth is how deep lists, maps and pointers may be nested.
const depth = 8

// application returns an Application of that namespace, as Argo CD reads it.
func (g *generator) application(t *testing.T, namespace string) *v1alpha1.Application {
	a := &v1alpha1.Application{TypeMeta: metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Application"}}
	g.fill(reflect.ValueOf(&a.Spec).Elem(), depth)
	g.fill(reflect.ValueOf(&a.Status).Elem(), depth)
	g.fill(reflect.ValueOf(&a.Operation).Elem(), depth)
	a.ObjectMeta = metav1.ObjectMeta{
		Name: g.word(), Namespace: namespace, UID: types.UID(g.word()), ResourceVersion: fmt.Sprint(g.IntN(1000)),
		Generation: int64(g.IntN(1000)), CreationTimestamp: metav1.Unix(g.Int64N(4e9), 0),
		Labels: g.keys(), Annotations: g.keys(),
	}
	return decoded[v1alpha1.Application](t, encoded(t, a))
}

// fill sets v, and all that is in it, to something; what may lack lacks sometimes.
func (g *generator) fill(v reflect.Value, depth int) {
	if !v.CanSet() {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.Unix(g.Int64N(4e9), 0)
		return
	case *intstr.IntOrString:
		*p = intstr.FromInt32(g.Int32())
		if g.IntN(2) == 0 {
			*p = intstr.FromString(g.word())
		}
		return
	case *runtime.RawExtension:
		p.Raw = []byte(fmt.Sprintf(`{%q:[1.5,9007199254740993,true,{%q:"<&>"}]}`, g.word(), g.word()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			g.fill(v.Field(i), depth)
		}
	case reflect.Pointer:
		if depth > 0 && g.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := g.IntN(3); depth > 0 && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				g.item(v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		g.mapping(v, depth)
	case reflect.String:
		v.SetString(g.word())
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8:
		g.number(v)
	default:
		panic("generate: " + v.Type().String())
	}
}

// item fills an item of a list, which is never null.
func (g *generator) item(v reflect.Value, depth int) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	g.fill(v, depth)
}

func (g *generator) mapping(v reflect.Value, depth int) {
	n := g.IntN(3)
	if depth == 0 || n == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		g.fill(key, depth-1)
		g.item(value, depth-1)
		v.SetMapIndex(key, value)
	}
}

// number sets an integer, sometimes one that a floating-point number cannot hold.
func (g *generator) number(v reflect.Value) {
	n := int64(g.IntN(100))
	if v.Kind() == reflect.Int64 && g.IntN(4) == 0 {
		n = 9007199254740993 + g.Int64N(1<<60)
	}
	if v.CanUint() {
		v.SetUint(uint64(n))
		return
	}
	v.SetInt(n)
}

// word returns a text, sometimes one that is hard to write down, and never an empty one.
func (g *generator) word() string {
	hard := []string{"<a & b>", "zürich", "\u2028", `"`, "null", "true", "1e3", "*", "!x", "a/b.c"}
	if g.IntN(8) == 0 {
		return hard[g.IntN(len(hard))]
	}
	const letters = "abcdefghijklmnop"
	text := make([]byte, 1+g.IntN(8))
	for i := range text {
		text[i] = letters[g.IntN(len(letters))]
	}
	return string(text)
}

// keys returns labels or annotations.
func (g *generator) keys() map[string]string {
	out := map[string]string{}
	for range g.IntN(4) {
		out["example.com/"+g.word()] = g.word()
	}
	return out
}

// some returns a few of a list's items, in their order.
func some[T any](g *generator, items ...T) []T {
	var out []T
	for _, item := range items {
		if g.IntN(2) == 0 {
			out = append(out, item)
		}
	}
	return out
}

// encoded returns the JSON of what Argo CD would send.
func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// decoded returns what Argo CD reads from JSON.
func decoded[T any](t *testing.T, text []byte) *T {
	t.Helper()
	v := new(T)
	require.NoError(t, json.Unmarshal(text, v))
	return v
}

// now is to the second, as Kubernetes writes times.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
