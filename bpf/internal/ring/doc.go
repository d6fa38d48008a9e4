// Package ring reads what programs in the kernel hand over by a ring buffer, and their counters.
//
//	r, err := ring.Open(objects.Ring)
//	for {
//		record, err := r.Next(ctx)
//	}
//
// The programs do not wake their reader, which would cost more than a record: it looks ten times a second, and
// the buffer must hold what comes meanwhile.
package ring
