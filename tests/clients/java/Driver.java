// Makes calls by OkHttp: java -cp 'jars/*' Driver.java CLIENT, with "CASE URL" on each line of standard input.
//
// The driver prints JSON: a line when it is ready, one for the first event of a stream, one for the end of each call.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;

public class Driver {
  static synchronized void tell(String line) {
    System.out.println("{" + line + "}");
  }

  static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
  }

  static String call(String client, String name, String url) throws IOException {
    OkHttpClient http = new OkHttpClient();
    if (name.equals("patient")) http = http.newBuilder().readTimeout(Duration.ofMinutes(5)).build();
    Request.Builder request = new Request.Builder().url(url + "/plain");
    if (client.endsWith("POST")) request.post(RequestBody.create(new byte[] {'a'}));
    try (Response answer = http.newCall(request.build()).execute()) {
      if (!answer.isSuccessful()) throw new IOException("status " + answer.code());
      if (!name.equals("stream")) return answer.body().string();
      int pieces = 0;
      for (String line; (line = answer.body().source().readUtf8Line()) != null; ) {
        if (pieces++ == 0) tell("\"case\": \"stream\", \"event\": \"first\"");
      }
      return Integer.toString(pieces);
    }
  }

  static void run(String client, String name, String url) {
    long begun = System.nanoTime();
    String end;
    try {
      end = "\"value\": " + quoted(call(client, name, url));
    } catch (Exception e) {
      end = "\"error\": " + quoted(e.getClass().getSimpleName()) + ", \"text\": " + quoted(e.toString());
    }
    double seconds = (System.nanoTime() - begun) / 1e9;
    tell("\"case\": " + quoted(name) + ", \"seconds\": " + seconds + ", " + end);
  }

  public static void main(String[] arguments) throws Exception {
    tell("\"ready\": true");
    List<Thread> running = new ArrayList<>();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] words = line.split(" ");
      Thread thread = new Thread(() -> run(arguments[0], words[0], words[1]));
      thread.start();
      running.add(thread);
    }
    for (Thread thread : running) thread.join();
    System.exit(0);
  }
}
