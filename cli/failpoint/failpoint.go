// Package failpoint kills a program at a chosen point of its work, for tests of what is left
// when it dies there: it wraps the store and the link that a program works with, counts how
// often each point is reached, and ends the process the n-th time.
//
// Programs have it only if they are built with the tag failpoints; those that are shipped
// are not. Then the environment says where to die:
//
//	ARGOCD_AGENT_FAILPOINT=before-send:3
package failpoint

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Variable is the variable of the environment that names the point, as [Parse] reads it.
const Variable = "ARGOCD_AGENT_FAILPOINT"

// A Point is a place in the work of a program.
type Point string

// The points. Those after an act are reached only if it has succeeded: the effect is there,
// and whoever asked for it has not learnt so yet.
const (
	BeforeCreate  Point = "before-create" // of an object
	AfterCreate   Point = "after-create"
	BeforeChange  Point = "before-change" // of an object that exists
	AfterChange   Point = "after-change"
	BeforeRemove  Point = "before-remove" // of an object
	AfterRemove   Point = "after-remove"
	BeforeSend    Point = "before-send" // of a row
	AfterSend     Point = "after-send"
	BeforeErase   Point = "before-erase" // a tombstone is sent in place of a row
	AfterErase    Point = "after-erase"
	BeforeDeclare Point = "before-declare" // of what is no row, such as a manifest
	AfterDeclare  Point = "after-declare"
	Receive       Point = "receive"    // a value has left the link, and is not handed over yet
	BeforeAck     Point = "before-ack" // it has been taken in
	AfterAck      Point = "after-ack"
)

// Points returns all points.
func Points() []Point {
	return []Point{
		BeforeCreate, AfterCreate, BeforeChange, AfterChange, BeforeRemove, AfterRemove,
		BeforeSend, AfterSend, BeforeErase, AfterErase, BeforeDeclare, AfterDeclare,
		Receive, BeforeAck, AfterAck,
	}
}

// Parse reads <point>:<n>, with n from 1.
func Parse(text string) (p Point, n int64, err error) {
	name, count, _ := strings.Cut(text, ":")
	for _, known := range Points() {
		if string(known) == name {
			p = known
		}
	}
	if p == "" {
		return "", 0, fmt.Errorf("failpoint: %q is no point: they are %q", name, Points())
	}
	if n, err = strconv.ParseInt(count, 10, 64); err != nil || n < 1 {
		return "", 0, fmt.Errorf("failpoint: %q does not say at which time, counted from 1", text)
	}
	return p, n, nil
}

// Config is what a Trap is made of. All fields are needed.
type Config struct {
	Point Point
	N     int64  // at which time the point is deadly, counted from 1
	Kill  func() // ends the process; what follows a point is not done if it does not return
}

// A Trap counts one point, and kills once.
type Trap struct {
	cfg     Config
	reached atomic.Int64
}

// New returns a Trap, which is sprung by nothing that it does not wrap.
func New(c Config) (*Trap, error) {
	if _, _, err := Parse(fmt.Sprintf("%s:%d", c.Point, c.N)); err != nil {
		return nil, err
	}
	if c.Kill == nil {
		return nil, fmt.Errorf("failpoint: nothing kills at %s", c.Point)
	}
	return &Trap{cfg: c}, nil
}

// reach says that a point has been reached.
func (t *Trap) reach(p Point) {
	if p == t.cfg.Point && t.reached.Add(1) == t.cfg.N {
		t.cfg.Kill()
	}
}

// around does something between two points.
func (t *Trap) around(before, after Point, do func() error) error {
	t.reach(before)
	err := do()
	if err == nil {
		t.reach(after)
	}
	return err
}
