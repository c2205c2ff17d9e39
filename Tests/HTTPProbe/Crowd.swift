import Foundation
import Glibc

/// Concurrent requests, each to a separate path: `/1`, `/2` and so on, and downloads of one file beside them.
struct Crowd {
    let count: Int
    let url: URL
    let method: String
    /// The length of each body.
    let size: Int
    /// The number of downloads.
    var downloads = 0
    /// The file that they download.
    var file: URL?
    /// The number of times that all of it is done, one after the other.
    var rounds = 1

    /// Makes all requests, and counts those that succeed.
    func run(by client: some ProbeClient) async -> String {
        var succeeded = 0
        for round in 1...rounds {
            if rounds > 1 { HTTPProbe.write("round \(round)") }
            succeeded += await runOnce(by: client)
            if rounds > 1 {
                // Idle connections are closed by then.
                poll(nil, 0, 2500)
                HTTPProbe.write("usage \(Self.usage)")
            }
        }
        return "\(succeeded) of \((count + downloads) * rounds)"
    }

    private func runOnce(by client: some ProbeClient) async -> Int {
        await withTaskGroup(of: Bool.self) { group in
            for number in 1...count {
                let url = url.appendingPathComponent("\(number)")
                group.addTask { [method, size] in
                    await isSuccess(number) {
                        size == 0 ? try await client.data(method, url).status : try await client.upload(method, url, size: size)
                    }
                }
            }
            for number in 0..<downloads {
                group.addTask { [file, url] in
                    await isSuccess(count + number) {
                        // The same session for all of them.
                        let (status, location) = try await client.download(file ?? url, number: 0)
                        try FileManager.default.removeItem(at: location)
                        return status
                    }
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
    }

    private func isSuccess(_ number: Int, _ request: () async throws -> Int) async -> Bool {
        do {
            return try await 200...299 ~= request()
        } catch {
            HTTPProbe.write("lost \(number) \(HTTPProbe.code(of: error)) \(type(of: error))")
            return false
        }
    }

    /// The descriptors and the memory of this process.
    private static var usage: String {
        let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let memory = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }?.split(whereSeparator: { !$0.isNumber }).first
        return "\(descriptors) descriptors, \(memory ?? "0") KiB"
    }
}
