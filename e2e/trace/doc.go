// Package trace has a principal and an agent, each with a tracer of its own, send what they tell to
// one OTLP receiver, over each transport as it is, and looks at what came.
package trace
