package traces

// Appender takes records in the order in which they became true. *Writer is one; so is whatever a test puts in its place.
type Appender interface {
	// Append adds one record and assigns its Seq when that is 0. It is safe for concurrent use. After it
	// returned nil the record belongs to the Appender and must not be changed.
	Append(Record) error
	// Seq is the highest Seq given so far.
	Seq() int64
}

// WriterOptions bound a Writer. The zero value is the recommended setting.
type WriterOptions struct{}

// Writer writes a trace folder.
type Writer struct{}

// Create makes the trace folder DIR, which must not exist or be empty, and a Writer for it.
func Create(dir string, m Manifest, o WriterOptions) (*Writer, error) { panic("skeleton") }

// Append implements Appender.
func (w *Writer) Append(r Record) error { panic("skeleton") }

// Seq implements Appender.
func (w *Writer) Seq() int64 { panic("skeleton") }

// Lose notes a known loss in the manifest.
func (w *Writer) Lose(l Loss) { panic("skeleton") }

// Update changes the manifest under the Writer's lock; it is on disk when Update returns nil.
func (w *Writer) Update(change func(*Manifest)) error { panic("skeleton") }

// Close writes what is buffered, marks the manifest complete and ends the trace.
func (w *Writer) Close() error { panic("skeleton") }
