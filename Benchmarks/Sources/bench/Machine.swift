import CBench
import Glibc

/// The machine that is measured on.
enum Machine {
    /// Where the driver runs.
    static let driver: Int32 = 0
    /// Where listeners run.
    static let listener: Int32 = 1

    /// The lines at the head of a report.
    static var description: String {
        var name = utsname()
        uname(&name)
        let release = withUnsafeBytes(of: name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        var now = time(nil)
        var date = tm()
        gmtime_r(&now, &date)
        let day = "\(date.tm_year + 1900)-\(padded(Int(date.tm_mon) + 1))-\(padded(Int(date.tm_mday)))"
        return "\(day), Linux \(release), \(bench_processors()) processors, \(processorName), load average \(load)"
    }

    /// The load averages of the last 1, 5 and 15 minutes: others that compute make everything slower, and not evenly.
    static var load: String {
        var averages = [0.0, 0.0, 0.0]
        getloadavg(&averages, 3)
        return averages.map { decimal($0) }.joined(separator: " ")
    }

    private static var processorName: String {
        let lines = (try? readFile("/proc/cpuinfo"))?.split(separator: "\n") ?? []
        let name = lines.first { $0.hasPrefix("model name") }?.split(separator: ":").last
        return name.map { String($0.drop { $0 == " " }) } ?? "unknown"
    }
}

/// Keeps processors awake while the body runs, so that none has to be woken from sleep (SCHED_IDLE, sched(7)).
func withSpinners(_ body: () throws -> Void) throws {
    guard bench_processors() > Machine.listener else { throw BenchError("at least two processors are needed") }
    let spinners = try (0..<bench_processors()).map { try BenchError.check(bench_spin($0), "spinner") }
    defer { for spinner in spinners { bench_stop(spinner) } }
    try BenchError.check(bench_pin(Machine.driver), "sched_setaffinity")
    try body()
}

/// The contents of a file, such as one below /proc.
func readFile(_ path: String) throws -> String {
    guard let file = fopen(path, "r") else { throw BenchError("\(path): \(String(cString: strerror(errno)))") }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
    return String(decoding: bytes, as: UTF8.self)
}

/// A number with some decimals.
func decimal(_ number: Double, _ digits: Int = 2) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let whole = Int((number.magnitude * scale).rounded())
    let fraction = digits == 0 ? "" : "." + String(String(whole % Int(scale) + Int(scale)).dropFirst())
    return (number < 0 && whole > 0 ? "-" : "") + "\(whole / Int(scale))" + fraction
}

private func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

/// The memory that a process holds, in megabytes: now, and at most so far (proc_pid_status(5)).
func memoryHeld(by process: String) -> (now: Double, peak: Double) {
    let lines = (try? readFile("/proc/\(process)/status"))?.split(separator: "\n") ?? []
    func megabytes(_ key: String) -> Double {
        let words = lines.first { $0.hasPrefix(key) }?.split { $0 == " " || $0 == "\t" } ?? []
        return words.count > 1 ? (Double(words[1]) ?? 0) / 1024 : 0
    }
    return (megabytes("VmRSS:"), megabytes("VmHWM:"))
}
