# JupyterLab with gradlab, on the CPU.
#
#   docker build -f .containers/cpu.Dockerfile -t gradlab .
#   docker run --rm -p 127.0.0.1:8888:8888 gradlab          # the log has the address with its token

FROM python:3.11.13-slim-bookworm AS wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY triton_kernels triton_kernels
COPY widgets widgets
COPY lab lab
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11.13-slim-bookworm
# a C compiler stays: %%tune and to_c compile C, Triton its launchers
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[lab,vision,tensorboard,onnx]" \
    && useradd --create-home --uid 1000 lab
USER 1000
WORKDIR /home/lab
COPY --chown=lab:lab notebooks notebooks
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--notebook-dir=/home/lab/notebooks"]
