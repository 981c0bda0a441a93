package engine

import (
	"hash/fnv"
	"strconv"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Buckets is the number of buckets into which the keys of a table are divided.
const Buckets = 256

// A BucketSet is a set of buckets.
type BucketSet [Buckets / 64]uint64

// Has reports whether bucket i is in the set.
func (b BucketSet) Has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// With returns the set with bucket i in it.
func (b BucketSet) With(i int) BucketSet {
	b[i/64] |= 1 << (i % 64)
	return b
}

// Empty reports whether the set has no bucket.
func (b BucketSet) Empty() bool { return b == BucketSet{} }

// BucketOf returns the bucket of a key.
func BucketOf(k resource.Key) int {
	h := fnv.New32a()
	h.Write([]byte(k.String()))
	return int(h.Sum32() % Buckets)
}

// A table counts and sums the rows of one side's table. Tables of equal rows have equal
// sums, however they came about.
type table struct {
	count int
	sums  [Buckets]uint64
	root  uint64 // see rootOf: it is asked for at each Step
}

// set changes the row of k from one Digest to another; "" is no row.
func (t *table) set(k resource.Key, from, to resource.Digest) {
	if from == to {
		return
	}
	if from != "" {
		t.count--
	}
	if to != "" {
		t.count++
	}
	change := weigh(k, from) ^ weigh(k, to)
	t.sums[BucketOf(k)] ^= change
	t.root ^= change
}

// rootOf returns the one sum of all buckets.
func rootOf(sums [Buckets]uint64) (root uint64) {
	for _, s := range sums {
		root ^= s
	}
	return root
}

// weigh returns what a row adds to the sum of its bucket.
func weigh(k resource.Key, d resource.Digest) uint64 {
	if d == "" {
		return 0
	}
	w, err := strconv.ParseUint(string(resource.Sum(k.String(), string(d)))[:16], 16, 64)
	if err != nil {
		panic("engine: a digest is hexadecimal: " + err.Error())
	}
	return w
}
