// Package arch holds the direction in which packages of this module may import each other
// and the outside, as a test: each rule with its reason.
package arch
