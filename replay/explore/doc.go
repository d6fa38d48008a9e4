// Package explore finds the timing that breaks an operator, from a recording of a run that went well.
//
//	found, err := explore.Run(ctx, explore.Options{Trial: trial.Options{Replay: replay.Options{Trace: t, Operators: ops}}})
//	for _, g := range found.Groups {
//		fmt.Println(g.Alarm.What, g.Plan)
//	}
//
// The recording is played once unaltered. From what led to what in that run follow the plans to try (Kind), each of
// one fault: what may happen between a write and what follows it, and what a watch may show late, or not at all. What
// cannot matter is left out, and counted by reason. Then come plans of chance, in the manner of PCT (Burckhardt et al.,
// ASPLOS 2010). Each is run and judged by package trial; alarms with one cause become a Group, whose smallest plan package
// shrink makes smaller.
//
// # Repeatable
//
// The same trace, binaries, budget and seed give the same table (Row), byte for byte, whatever the number of workers;
// the tables of the shards of one exploration merge (Merge) into the table of the whole. An exploration that is ended
// goes on where it was when it is started again in the same folder. Look says how far one is, by its folder.
package explore
