# JupyterLab with gradlab, on an NVIDIA GPU; the machine needs NVIDIA's container toolkit.
#
#   docker build -f .containers/cuda.Dockerfile -t gradlab-cuda .
#   docker run --rm --gpus all -p 127.0.0.1:8888:8888 gradlab-cuda
#   docker run --rm --gpus all gradlab-cuda python -m lab doctor

# devel: CuPy compiles with CUDA's headers, and the C compiler is there
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH
RUN python3 -m venv /opt/venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY triton_kernels triton_kernels
COPY widgets widgets
COPY lab lab
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM nvidia/cuda:13.0.1-devel-ubuntu24.04
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH
COPY --from=wheel /wheels /wheels
# Ubuntu's image has a user of the number 1000 already
RUN python3 -m venv /opt/venv \
    && pip install --no-cache-dir "$(ls /wheels/*.whl)[lab,gpu,vision,tensorboard,onnx]" \
    && useradd --create-home --uid 1001 lab
USER 1001
WORKDIR /home/lab
COPY --chown=lab:lab notebooks notebooks
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--notebook-dir=/home/lab/notebooks"]
