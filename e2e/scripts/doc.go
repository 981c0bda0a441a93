// Package scripts tells how the programs behave on the command line, as stories in
// testdata that can be read, and typed.
package scripts
