import Foundation
import ReachableJobs
import ReachableRetry

@main struct OrdersCommand {
    static func main() async throws {
        let database = ProcessInfo.processInfo.environment["DATABASE_URL"] ?? ""
        var words = CommandLine.arguments.dropFirst()
        switch (words.popFirst(), words.popFirst(), words.popFirst()) {
        case ("serve", let text?, nil):
            guard let url = URL(string: text) else { return print(usage) }
            try await serve(database, to: url)
        case ("add", let number?, let item?):
            guard let number = Int(number) else { return print(usage) }
            let receipt = try await orderQueue(database, bus: .shared).push(SendOrder(number: number, item: item))
            print(receipt.id)
        case ("list", nil, nil):
            for job in try await orderQueue(database, bus: .shared).jobs() {
                guard let order = job.parameters(as: SendOrder.self) else { continue }
                let (started, charged) = (job.counters.started, job.counters.charged)
                print("\(order.number): \(order.item) (\(job.state), \(started) attempts, \(charged) charged)")
            }
        default: print(usage)
        }
    }

    static let usage = "orders serve URL | orders add NUMBER ITEM | orders list; DATABASE_URL names the database"
}
