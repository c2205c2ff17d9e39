import Foundation

/// Concurrent requests, each to a separate path: `/1`, `/2` and so on.
struct Crowd {
    let count: Int
    let url: URL
    let method: String
    /// The length of each body.
    let size: Int

    /// Makes all requests, and counts those that succeed.
    func run(by client: some ProbeClient) async -> String {
        await withTaskGroup(of: Bool.self) { group in
            for number in 1...count {
                let url = url.appendingPathComponent("\(number)")
                group.addTask { [method, size] in
                    do {
                        let status =
                            size == 0
                            ? try await client.data(method, url).status : try await client.upload(method, url, size: size)
                        return 200...299 ~= status
                    } catch {
                        HTTPProbe.write("lost \(number) \(HTTPProbe.code(of: error)) \(type(of: error))")
                        return false
                    }
                }
            }
            return "\(await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }) of \(count)"
        }
    }
}
