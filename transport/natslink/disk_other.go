//go:build !unix

package natslink

import "math"

// freeSpace does not know: the server says itself when the disk is full.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

// Capacity does not know.
func Capacity(string) (uint64, error) { return math.MaxUint64, nil }
