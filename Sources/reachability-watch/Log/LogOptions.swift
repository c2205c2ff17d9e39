import ArgumentParser
import CommandKit
import Reachability

/// The options of the log of `watch`.
struct LogOptions: ParsableArguments {
    /// The smallest `--log-size`: a few lines.
    private static let smallest: Int64 = 4 << 10

    @Option(
        help: ArgumentHelp(
            "Append the lines of --format json to this file, whatever standard output shows. SIGHUP opens it again.",
            valueName: "file"))
    var log: String?

    @Option(
        help: ArgumentHelp(
            "Begin another file before this one grows beyond this size; it becomes FILE.1. Default: 10MiB.", valueName: "size"),
        transform: { try SizeArgument($0) })
    var logSize: SizeArgument?

    @Option(help: ArgumentHelp("The number of older files, FILE.1 and so on, to keep. Default: 5.", valueName: "n"))
    var logKeep: Int?

    func validate() throws {
        guard let log else {
            if logSize != nil { throw ValidationError("--log-size without --log; next: add --log FILE") }
            if logKeep != nil { throw ValidationError("--log-keep without --log; next: add --log FILE") }
            return
        }
        if log.isEmpty { throw ValidationError("--log is empty; next: name a file") }
        if log == "-" {
            throw ValidationError("--log writes files only; next: use --format json for standard output")
        }
        if let logSize, logSize.bytes < Self.smallest {
            throw ValidationError("--log-size is below 4KiB; next: use a larger size, such as 1MiB")
        }
        if let logKeep, !(0...1000).contains(logKeep) {
            throw ValidationError("--log-keep is not from 0 to 1000; next: use a number in this range")
        }
    }

    /// The file and its limits; `nil` without `--log`.
    var place: LogFile.Place? {
        // The name byte by byte as it was typed.
        log.map { name in
            LogFile.Place(
                path: ForeignText(RawArguments.bytes(typedAs: name)), largest: logSize?.bytes ?? 10 << 20, kept: logKeep ?? 5)
        }
    }
}
