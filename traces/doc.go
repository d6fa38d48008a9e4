// Package traces is the trace format.
package traces
