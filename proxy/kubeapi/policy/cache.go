package policy

import (
	"sync"
	"time"
)

// lifetime is how long what was looked up is used, and capacity how much of it is kept.
const (
	lifetime = 5 * time.Second
	capacity = 4096
)

// A cache keeps values for a time. It never has more than capacity of them.
type cache[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

// get returns the value of a key: what is kept, or else what load returns, which is kept unless
// it is an error. Several may load at once.
func (c *cache[K, V]) get(key K, load func() (V, error)) (V, error) {
	c.mu.Lock()
	e, ok := c.kept[key]
	c.mu.Unlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	from := time.Now() // what is loaded is of a time after this
	value, err := load()
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= capacity {
		c.kept = map[K]entry[V]{} // which is rare, and costs look-ups only
	}
	c.kept[key] = entry[V]{value, from.Add(lifetime)}
	return value, nil
}
