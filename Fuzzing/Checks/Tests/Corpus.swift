import Foundation
import Testing

/// An input that a fuzzer found worth keeping.
struct CorpusFile: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let testDescription: String

    /// The files of a fuzzer, in the order of their names.
    static func all(of target: String) -> [CorpusFile] {
        let fuzzing = (0..<3).reduce(URL(fileURLWithPath: #filePath)) { path, _ in path.deletingLastPathComponent() }
        let folder = fuzzing.appendingPathComponent("Corpus/\(target)")
        let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        return files.sorted { $0.lastPathComponent < $1.lastPathComponent }.compactMap { file in
            (try? Data(contentsOf: file)).map { CorpusFile(bytes: Array($0), testDescription: file.lastPathComponent) }
        }
    }
}
